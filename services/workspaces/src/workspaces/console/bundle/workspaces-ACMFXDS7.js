import{E as y,G as b,H as C,I as f,J as D,R as k,S as h,T as N,U as v,X as m,aa as R,ba as T,ca as W,d as c,da as x,ja as A,ka as B,ma as M,p as t,r as w,t as g,u as $,z as i}from"./chunk-WZYHQKR3.js";function E(){let[a,o]=c(null);g("Workspaces");let e=i.value,r=t`<${m} kind="primary" icon="plus" onClick=${()=>o("new")}>New workspace<//>`,s=t`<${m} small onClick=${N}>Try again<//>`;return t`<div class="page">
    <header><div><h1>Workspaces</h1><p>A workspace has its own conversations, and the teams that are attached to it.</p></div>
      ${e?.length?r:null}</header>
    ${e===null&&(h.value?t`<${R} tone="bad" action=${s}>${h.value}<//>`:t`<${W} />`)}
    ${e?.length===0&&t`<${T} icon="layout-grid" title="No workspaces yet" action=${r}>
      Make one, attach a team to it, and talk to its agents.<//>`}
    ${e&&e.length>0&&t`<ul class="cards">${e.map(n=>t`
      <${I} key=${n.id} workspace=${n} rename=${()=>o(n)} />`)}</ul>`}
    ${a&&t`<${F} workspace=${a==="new"?null:a} onClose=${()=>o(null)} />`}
  </div>`}function I({workspace:a,rename:o}){let{id:e,name:r,conversations:s,instance_ids:n}=a,d=()=>B({title:`Delete \u201C${r}\u201D?`,action:"Delete workspace",danger:!0,text:`This deletes the workspace${s?` and ${$(s,"conversation")}`:""} for good. Attached teams can no longer read its libraries.`,act:async()=>{await C(f`/workspaces/${e}`),i.value=(i.value??[]).filter(p=>p.id!==e)}});return t`<li class="card workspace-card">
    <h2><a class="row-link ellipsis" dir="auto" href=${`/workspaces/${e}`}>${r}</a></h2>
    <${M} label=${`More for ${r}`} actions=${[{label:"Attached teams",icon:"users",act:()=>k(`/workspaces/${e}/settings`)},{label:"Rename",icon:"pencil",act:o},{label:"Delete",icon:"trash-2",danger:!0,act:d}]} />
    <p class="facts"><span><${v} name="users" size=${14} />${$(n.length,"team")}</span>
      <span><${v} name="message-square" size=${14} />${$(s,"conversation")}</span></p></li>`}function F({workspace:a,onClose:o}){let[e,r]=c(a?.name??""),[s,n]=c(""),[d,p]=c(!1);return t`<${A} title=${a?"Rename workspace":"New workspace"} onClose=${o}><form onSubmit=${async S=>{S.preventDefault(),p(!0);try{let l=a?await b(f`/workspaces/${a.id}`,{name:e}):await y("/workspaces",{name:e}),q=(i.value??[]).filter(u=>u.id!==l.id);i.value=[...q,l].sort((u,z)=>u.name.localeCompare(z.name)),o(),a||k(`/workspaces/${l.id}`)}catch(l){n(D(l)),p(!1)}}}>
    <div class="dialog-body"><${x} label="Name" for="workspace-name" error=${s}>
      <input id="workspace-name" value=${e} maxlength="200" required autofocus dir="auto" placeholder="Research"
        onInput=${w(r)} /><//></div>
    <footer><${m} onClick=${o}>Cancel<//>
      <${m} kind="primary" type="submit" busy=${d} disabled=${!e.trim()}>
        ${a?"Rename":"Create"}<//></footer></form><//>`}export{E as default};
