import{a as i,b as m,e as u}from"./chunk-DT37TMEU.js";import{D as d,R as r,U as w,W as k,d as b,e as g,p as o}from"./chunk-ZLFHRIET.js";function v(){let[n,a]=b({models:[],agents:[]});return g(()=>{d("/turns/models").then(t=>a(t),()=>{})},[]),n}function f({filter:n}){let{agents:a}=v(),t=e=>r(`/turns${u({...n,...e})}`,{replace:!0}),l=[...new Set(a.map(e=>e.team))],c=a.filter(e=>!n.team||e.team===n.team).map(e=>e.agent),s=n.range==="between"||!n.range&&!!(n.since||n.until);return o`<form class="filters" role="search" aria-label="Turns" onSubmit=${e=>e.preventDefault()}>
    <${$} label="Team" any="All teams" value=${n.team} options=${l} onPick=${e=>t({team:e,agent:""})} />
    <${$} label="Agent" any="All agents" value=${n.agent} options=${[...new Set(c)]} onPick=${e=>t({agent:e})} />
    <${$} label="State" any="Any state" value=${n.state} options=${Object.keys(i)} words=${e=>i[e]?.word??e} onPick=${e=>t({state:e})} />
    <${$} label="Time" any="Any time" value=${s?"between":n.range} options=${[...Object.keys(m),"between"]}
      words=${e=>m[e]?.word??"Between\u2026"} onPick=${e=>t({range:e,since:"",until:""})} />
    <${h} key=${n.caller} value=${n.caller} onPick=${e=>t({caller:e})} />
    ${s&&o`<${y} label="From" value=${n.since} onPick=${e=>t({range:"between",since:e})} />
      <${y} label="Until" value=${n.until} onPick=${e=>t({range:"between",until:e})} />`}
    ${u(n)&&o`<${k} kind="quiet" icon="x" onClick=${()=>r("/turns",{replace:!0})}>Clear<//>`}
  </form>`}var p=n=>n.target.value,$=({label:n,any:a,value:t,options:l,words:c=e=>e,onPick:s})=>o`
  <select class=${t?"filter chosen":"filter"} aria-label=${n} value=${t} onChange=${e=>s(p(e))}>
    <option value="" selected=${!t}>${a}</option>
    ${[...l,...t&&!l.includes(t)?[t]:[]].map(e=>o`<option key=${e} value=${e} selected=${e===t}>${c(e)}</option>`)}</select>`,h=({value:n,onPick:a})=>o`<span class="search filter"><${w} name="search" />
  <input type="search" aria-label="Caller" placeholder="Caller" value=${n} onChange=${t=>a(p(t).trim())} /></span>`,y=({label:n,value:a,onPick:t})=>o`<label class="moment"><span class="muted">${n}</span>
  <input type="datetime-local" value=${a} onChange=${l=>t(p(l))} /></label>`;export{v as a,f as b};
