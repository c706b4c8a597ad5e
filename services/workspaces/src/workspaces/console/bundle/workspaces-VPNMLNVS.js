import{$ as C,A as n,F as g,H as y,I as b,J as f,K as D,S as h,T as k,V as p,aa as N,ba as R,d as l,ga as x,ha as A,ja as M,q as t,s as v,u as w,v as m}from"./chunk-UCKJDYVP.js";function q(){let[a,o]=l(null);w("Workspaces");let e=n.value,s=t`<${p} kind="primary" icon="plus" onClick=${()=>o("new")}>New workspace<//>`;return t`<div class="page">
    <header><div><h1>Workspaces</h1><p>A workspace has its own conversations, and the teams that are attached to it.</p></div>
      ${e?.length?s:null}</header>
    ${e===null&&t`<${N} />`}
    ${e?.length===0&&t`<${C} icon="layout-grid" title="No workspaces yet" action=${s}>
      Make one, attach a team to it, and talk to its agents.<//>`}
    ${e&&e.length>0&&t`<ul class="cards">${e.map(r=>t`
      <${z} key=${r.id} workspace=${r} rename=${()=>o(r)} />`)}</ul>`}
    ${a&&t`<${B} workspace=${a==="new"?null:a} onClose=${()=>o(null)} />`}
  </div>`}function z({workspace:a,rename:o}){let{id:e,name:s,conversations:r,instance_ids:$}=a,d=()=>A({title:`Delete \u201C${s}\u201D?`,action:"Delete workspace",danger:!0,text:`This deletes the workspace${r?` and ${m(r,"conversation")}`:""} for good. Attached teams can no longer read its libraries.`,act:async()=>{await b(f`/workspaces/${e}`),n.value=(n.value??[]).filter(c=>c.id!==e)}});return t`<li class="card workspace-card">
    <h2><a class="row-link ellipsis" dir="auto" href=${`/workspaces/${e}`}>${s}</a></h2>
    <${M} label=${`More for ${s}`} actions=${[{label:"Attached teams",icon:"users",act:()=>h(`/workspaces/${e}/settings`)},{label:"Rename",icon:"pencil",act:o},{label:"Delete",icon:"trash-2",danger:!0,act:d}]} />
    <p class="facts"><span><${k} name="users" size=${14} />${m($.length,"team")}</span>
      <span><${k} name="message-square" size=${14} />${m(r,"conversation")}</span></p></li>`}function B({workspace:a,onClose:o}){let[e,s]=l(a?.name??""),[r,$]=l(""),[d,c]=l(!1);return t`<${x} title=${a?"Rename workspace":"New workspace"} onClose=${o}><form onSubmit=${async S=>{S.preventDefault(),c(!0);try{let i=a?await y(f`/workspaces/${a.id}`,{name:e}):await g("/workspaces",{name:e}),T=(n.value??[]).filter(u=>u.id!==i.id);n.value=[...T,i].sort((u,W)=>u.name.localeCompare(W.name)),o(),a||h(`/workspaces/${i.id}`)}catch(i){$(D(i)),c(!1)}}}>
    <div class="dialog-body"><${R} label="Name" for="workspace-name" error=${r}>
      <input id="workspace-name" value=${e} maxlength="200" required autofocus dir="auto" placeholder="Research"
        onInput=${v(s)} /><//></div>
    <footer><${p} onClick=${o}>Cancel<//>
      <${p} kind="primary" type="submit" busy=${d} disabled=${!e.trim()}>
        ${a?"Rename":"Create"}<//></footer></form><//>`}export{q as default};
