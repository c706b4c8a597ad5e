import{B as w,D as g,E as y,F as u,G as b,O as f,P as k,R as m,X as D,Y as C,Z as N,ca as R,d as l,da as x,e as h,fa as E,q as o,s as v,w as i}from"./chunk-VUHAC7SX.js";function q(){let[t,a]=l(null);h(()=>{document.title="Workspaces \xB7 Pallas"},[]);let e=i.value,s=o`<${m} kind="primary" icon="plus" onClick=${()=>a("new")}>New workspace<//>`;return o`<div class="page">
    <header><div><h1>Workspaces</h1><p>A workspace has its own conversations, and the teams that are attached to it.</p></div>
      ${e?.length?s:null}</header>
    ${e===null&&o`<${C} />`}
    ${e?.length===0&&o`<${D} icon="layout-grid" title="No workspaces yet" action=${s}>
      Make one, attach a team to it, and talk to its agents.<//>`}
    ${e&&e.length>0&&o`<ul class="cards">${e.map(r=>o`
      <${z} key=${r.id} workspace=${r} rename=${()=>a(r)} />`)}</ul>`}
    ${t&&o`<${A} workspace=${t==="new"?null:t} onClose=${()=>a(null)} />`}
  </div>`}function z({workspace:t,rename:a}){let{id:e,name:s,conversations:r,instance_ids:p}=t,$=()=>x({title:`Delete \u201C${s}\u201D?`,action:"Delete workspace",danger:!0,text:`Its conversations (${r}) are deleted for good, and its teams lose access to its libraries.`,act:async()=>{await y(u`/workspaces/${e}`),i.value=(i.value??[]).filter(c=>c.id!==e)}});return o`<li class="card workspace-card">
    <h2><a class="row-link ellipsis" dir="auto" href=${`/workspaces/${e}`}>${s}</a></h2>
    <${E} label=${`More for ${s}`} actions=${[{label:"Attached teams",icon:"users",act:()=>f(`/workspaces/${e}/settings`)},{label:"Rename",icon:"pencil",act:a},{label:"Delete",icon:"trash-2",danger:!0,act:$}]} />
    <p class="facts"><span><${k} name="users" size=${14} />${I(p.length,"team")}</span>
      <span><${k} name="message-square" size=${14} />${I(r,"conversation")}</span></p></li>`}var I=(t,a)=>`${t} ${a}${t===1?"":"s"}`;function A({workspace:t,onClose:a}){let[e,s]=l(t?.name??""),[r,p]=l(""),[$,c]=l(!1);return o`<${R} title=${t?"Rename workspace":"New workspace"} onClose=${a}><form onSubmit=${async M=>{M.preventDefault(),c(!0);try{let n=t?await g(u`/workspaces/${t.id}`,{name:e}):await w("/workspaces",{name:e}),S=(i.value??[]).filter(d=>d.id!==n.id);i.value=[...S,n].sort((d,W)=>d.name.localeCompare(W.name)),a(),t||f(`/workspaces/${n.id}`)}catch(n){p(b(n)),c(!1)}}}>
    <div class="dialog-body"><${N} label="Name" for="workspace-name" error=${r}>
      <input id="workspace-name" value=${e} maxlength="200" required autofocus dir="auto" placeholder="Research"
        onInput=${v(s)} /><//></div>
    <footer><${m} onClick=${a}>Cancel<//>
      <${m} kind="primary" type="submit" busy=${$} disabled=${!e.trim()}>
        ${t?"Rename":"Create"}<//></footer></form><//>`}export{q as default};
