import{a as h,b as T}from"./chunk-KEK4B245.js";import{a as R,c as d,d as v,g as m,l as W,m as x,n as A,o as B,v as E,w as M,y as S}from"./chunk-6OHBJNTC.js";import{F as b,H as C,I as D,J as k,K as N,d as p,e as w,p as t,r as g,t as y,u,z as i}from"./chunk-VQFA7AQP.js";function F(){let[a,r]=p(null);y("Workspaces");let e=i.value,o=R.value?.path==="/"&&e?.length===1&&e[0];w(()=>{o&&d(`/workspaces/${o.id}`,{replace:!0})},[o]);let s=t`<${m} kind="primary" icon="plus" onClick=${()=>r("new")}>New workspace<//>`,l=t`<${m} small onClick=${T}>Try again<//>`;return t`<div class="page">
    <header><div><h1>Workspaces</h1><p>A workspace has its own conversations, and the teams that are attached to it.</p></div>
      ${e?.length?s:null}</header>
    ${e===null&&(h.value?t`<${W} tone="bad" action=${l}>${h.value}<//>`:t`<${A} />`)}
    ${e?.length===0&&t`<${x} icon="layout-grid" title="No workspaces yet" action=${s}>
      Make one, attach a team to it, and talk to its agents.<//>`}
    ${e&&e.length>0&&!o&&t`<ul class="cards">${e.map(n=>t`
      <${_} key=${n.id} workspace=${n} rename=${()=>r(n)} />`)}</ul>`}
    ${a&&t`<${j} workspace=${a==="new"?null:a} onClose=${()=>r(null)} />`}
  </div>`}function _({workspace:a,rename:r}){let{id:e,name:o,conversations:s,instance_ids:l}=a,n=()=>M({title:`Delete \u201C${o}\u201D?`,action:"Delete workspace",danger:!0,text:`This deletes the workspace${s?` and ${u(s,"conversation")}`:""} for good. Attached teams can no longer read its libraries.`,act:async()=>{await D(k`/workspaces/${e}`),i.value=(i.value??[]).filter($=>$.id!==e)}});return t`<li class="card workspace-card">
    <h2><a class="row-link ellipsis" dir="auto" href=${`/workspaces/${e}`}>${o}</a></h2>
    <${S} label=${`More for ${o}`} actions=${[{label:"Attached teams",icon:"users",act:()=>d(`/workspaces/${e}/settings`)},{label:"Rename",icon:"pencil",act:r},{label:"Delete",icon:"trash-2",danger:!0,act:n}]} />
    <p class="facts"><span><${v} name="users" size=${14} />${u(l.length,"team")}</span>
      <span><${v} name="message-square" size=${14} />${u(s,"conversation")}</span></p></li>`}function j({workspace:a,onClose:r}){let[e,o]=p(a?.name??""),[s,l]=p(""),[n,$]=p(!1);return t`<${E} title=${a?"Rename workspace":"New workspace"} onClose=${r}><form onSubmit=${async q=>{q.preventDefault(),$(!0);try{let c=a?await C(k`/workspaces/${a.id}`,{name:e}):await b("/workspaces",{name:e}),z=(i.value??[]).filter(f=>f.id!==c.id);i.value=[...z,c].sort((f,I)=>f.name.localeCompare(I.name)),r(),a||d(`/workspaces/${c.id}`)}catch(c){l(N(c)),$(!1)}}}>
    <div class="dialog-body"><${B} label="Name" for="workspace-name" error=${s}>
      <input id="workspace-name" value=${e} maxlength="200" required autofocus dir="auto" placeholder="Research"
        onInput=${g(o)} /><//></div>
    <footer><${m} onClick=${r}>Cancel<//>
      <${m} kind="primary" type="submit" busy=${n} disabled=${!e.trim()}>
        ${a?"Rename":"Create"}<//></footer></form><//>`}export{F as default};
