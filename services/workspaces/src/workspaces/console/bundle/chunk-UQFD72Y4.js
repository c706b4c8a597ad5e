import{a as u,b as m,e as p}from"./chunk-SJOO7B5T.js";import{c,d as k,g as y}from"./chunk-6OHBJNTC.js";import{E as w,d,e as b,p as o,r as $,v as g}from"./chunk-VQFA7AQP.js";var h=/^[0-9a-f]{32}$/,A=["model_failed","tool_unavailable","worker_lost","turn_timeout","agent_failed","agent_unreachable","context_overflow","iterations_exceeded","budget_exhausted","internal"];function C(){let[n,a]=d({models:[],agents:[]});return b(()=>{w("/turns/models").then(t=>a(t),()=>{})},[]),n}function E({filter:n}){let{agents:a}=C(),t=e=>c(`/turns${p({...n,...e})}`,{replace:!0}),s=[...new Set(a.map(e=>e.team))],i=a.filter(e=>!n.team||e.team===n.team).map(e=>e.agent),r=n.range==="between"||!n.range&&!!(n.since||n.until);return o`<form class="filters" role="search" aria-label="Turns" onSubmit=${e=>e.preventDefault()}>
    <${l} label="Team" any="All teams" value=${n.team} options=${s} onPick=${e=>t({team:e,agent:""})} />
    <${l} label="Agent" any="All agents" value=${n.agent} options=${[...new Set(i)]} onPick=${e=>t({agent:e})} />
    <${l} label="State" any="Any state" value=${n.state} options=${Object.keys(u)} words=${e=>u[e]?.word??e} onPick=${e=>t({state:e})} />
    <${l} label="Time" any="Any time" value=${r?"between":n.range} options=${[...Object.keys(m),"between"]}
      words=${e=>m[e]?.word??"Between\u2026"} onPick=${e=>t({range:e,since:"",until:""})} />
    <${l} label="Duration" any="Any duration" value=${n.least_seconds} options=${["1","5","30","120"]} words=${e=>`At least ${e} s`}
      onPick=${e=>t({least_seconds:e})} />
    <${l} label="Error" any="Any error" value=${n.code} options=${A} words=${e=>g(e.replaceAll("_"," "))} onPick=${e=>t({code:e})} />
    <${_} key=${n.caller} value=${n.caller} onPick=${e=>h.test(e)?c(`/turns/${e}`):t({caller:e})} />
    ${r&&o`<${v} label="From" value=${n.since} onPick=${e=>t({range:"between",since:e})} />
      <${v} label="Until" value=${n.until} onPick=${e=>t({range:"between",until:e})} />`}
    ${p(n)&&o`<${y} kind="quiet" icon="x" onClick=${()=>c("/turns",{replace:!0})}>Clear<//>`}
  </form>`}var l=({label:n,any:a,value:t,options:s,words:i=e=>e,onPick:r})=>o`
  <select class=${t?"filter chosen":"filter"} aria-label=${n} value=${t} onChange=${$(r)}>
    <option value="" selected=${!t}>${a}</option>
    ${[...s,...t&&!s.includes(t)?[t]:[]].map(e=>o`<option key=${e} value=${e} selected=${e===t}>${i(e)}</option>`)}</select>`,_=({value:n,onPick:a})=>o`<span class="search filter"><${k} name="search" />
  <input type="search" aria-label="Caller, or a turn's id" placeholder="Caller, or a turn's id" value=${n} onChange=${$(t=>a(t.trim()))} /></span>`,v=({label:n,value:a,onPick:t})=>o`<label class="moment"><span class="muted">${n}</span>
  <input type="datetime-local" value=${a} onChange=${$(t)} /></label>`;export{C as a,E as b};
