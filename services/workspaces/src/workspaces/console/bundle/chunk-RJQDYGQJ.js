import{a as m,b as u,e as p}from"./chunk-TDJJKSJS.js";import{D as d,R as i,U as w,X as k,d as b,e as g,p as o,r as $}from"./chunk-WJABKJN6.js";function h(){let[n,t]=b({models:[],agents:[]});return g(()=>{d("/turns/models").then(a=>t(a),()=>{})},[]),n}function f({filter:n}){let{agents:t}=h(),a=e=>i(`/turns${p({...n,...e})}`,{replace:!0}),l=[...new Set(t.map(e=>e.team))],r=t.filter(e=>!n.team||e.team===n.team).map(e=>e.agent),s=n.range==="between"||!n.range&&!!(n.since||n.until);return o`<form class="filters" role="search" aria-label="Turns" onSubmit=${e=>e.preventDefault()}>
    <${c} label="Team" any="All teams" value=${n.team} options=${l} onPick=${e=>a({team:e,agent:""})} />
    <${c} label="Agent" any="All agents" value=${n.agent} options=${[...new Set(r)]} onPick=${e=>a({agent:e})} />
    <${c} label="State" any="Any state" value=${n.state} options=${Object.keys(m)} words=${e=>m[e]?.word??e} onPick=${e=>a({state:e})} />
    <${c} label="Time" any="Any time" value=${s?"between":n.range} options=${[...Object.keys(u),"between"]}
      words=${e=>u[e]?.word??"Between\u2026"} onPick=${e=>a({range:e,since:"",until:""})} />
    <${v} key=${n.caller} value=${n.caller} onPick=${e=>a({caller:e})} />
    ${s&&o`<${y} label="From" value=${n.since} onPick=${e=>a({range:"between",since:e})} />
      <${y} label="Until" value=${n.until} onPick=${e=>a({range:"between",until:e})} />`}
    ${p(n)&&o`<${k} kind="quiet" icon="x" onClick=${()=>i("/turns",{replace:!0})}>Clear<//>`}
  </form>`}var c=({label:n,any:t,value:a,options:l,words:r=e=>e,onPick:s})=>o`
  <select class=${a?"filter chosen":"filter"} aria-label=${n} value=${a} onChange=${$(s)}>
    <option value="" selected=${!a}>${t}</option>
    ${[...l,...a&&!l.includes(a)?[a]:[]].map(e=>o`<option key=${e} value=${e} selected=${e===a}>${r(e)}</option>`)}</select>`,v=({value:n,onPick:t})=>o`<span class="search filter"><${w} name="search" />
  <input type="search" aria-label="Caller" placeholder="Caller" value=${n} onChange=${$(a=>t(a.trim()))} /></span>`,y=({label:n,value:t,onPick:a})=>o`<label class="moment"><span class="muted">${n}</span>
  <input type="datetime-local" value=${t} onChange=${$(a)} /></label>`;export{h as a,f as b};
