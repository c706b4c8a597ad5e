import{$ as C,A as i,F as g,H as y,I as b,J as f,K as D,S as k,T as h,V as m,aa as N,ba as R,d as l,ga as x,ha as I,ja as M,q as t,s as v,u as w,v as u}from"./chunk-OCILXL7U.js";function z(){let[a,o]=l(null);w("Workspaces");let e=i.value,s=t`<${m} kind="primary" icon="plus" onClick=${()=>o("new")}>New workspace<//>`;return t`<div class="page">
    <header><div><h1>Workspaces</h1><p>A workspace has its own conversations, and the teams that are attached to it.</p></div>
      ${e?.length?s:null}</header>
    ${e===null&&t`<${N} />`}
    ${e?.length===0&&t`<${C} icon="layout-grid" title="No workspaces yet" action=${s}>
      Make one, attach a team to it, and talk to its agents.<//>`}
    ${e&&e.length>0&&t`<ul class="cards">${e.map(r=>t`
      <${A} key=${r.id} workspace=${r} rename=${()=>o(r)} />`)}</ul>`}
    ${a&&t`<${B} workspace=${a==="new"?null:a} onClose=${()=>o(null)} />`}
  </div>`}function A({workspace:a,rename:o}){let{id:e,name:s,conversations:r,instance_ids:p}=a,$=()=>I({title:`Delete \u201C${s}\u201D?`,action:"Delete workspace",danger:!0,text:`Its conversations (${r}) are deleted for good, and its teams lose access to its libraries.`,act:async()=>{await b(f`/workspaces/${e}`),i.value=(i.value??[]).filter(c=>c.id!==e)}});return t`<li class="card workspace-card">
    <h2><a class="row-link ellipsis" dir="auto" href=${`/workspaces/${e}`}>${s}</a></h2>
    <${M} label=${`More for ${s}`} actions=${[{label:"Attached teams",icon:"users",act:()=>k(`/workspaces/${e}/settings`)},{label:"Rename",icon:"pencil",act:o},{label:"Delete",icon:"trash-2",danger:!0,act:$}]} />
    <p class="facts"><span><${h} name="users" size=${14} />${u(p.length,"team")}</span>
      <span><${h} name="message-square" size=${14} />${u(r,"conversation")}</span></p></li>`}function B({workspace:a,onClose:o}){let[e,s]=l(a?.name??""),[r,p]=l(""),[$,c]=l(!1);return t`<${x} title=${a?"Rename workspace":"New workspace"} onClose=${o}><form onSubmit=${async S=>{S.preventDefault(),c(!0);try{let n=a?await y(f`/workspaces/${a.id}`,{name:e}):await g("/workspaces",{name:e}),W=(i.value??[]).filter(d=>d.id!==n.id);i.value=[...W,n].sort((d,q)=>d.name.localeCompare(q.name)),o(),a||k(`/workspaces/${n.id}`)}catch(n){p(D(n)),c(!1)}}}>
    <div class="dialog-body"><${R} label="Name" for="workspace-name" error=${r}>
      <input id="workspace-name" value=${e} maxlength="200" required autofocus dir="auto" placeholder="Research"
        onInput=${v(s)} /><//></div>
    <footer><${m} onClick=${o}>Cancel<//>
      <${m} kind="primary" type="submit" busy=${$} disabled=${!e.trim()}>
        ${a?"Rename":"Create"}<//></footer></form><//>`}export{z as default};
