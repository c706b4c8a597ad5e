import{a as B,b as P,c as D,d as S,e as x,f as b}from"./chunk-7FOXAGZ7.js";import{c as U}from"./chunk-2GIURTQE.js";import{a as E,b as L}from"./chunk-73CRSOR5.js";import{$ as R,A as _,B as v,G as g,O as A,R as c,T as I,W as $,X as C,Z as p,ca as T,d as m,e as k,j as w,q as t,z as y}from"./chunk-VUHAC7SX.js";function W({onClose:e,onAdded:s}){let a=w(),[u,f]=m(!1),[o,r]=m(null),i=async n=>{n.preventDefault();let N=new FormData(n.target),h=l=>String(N.get(l)??"").trim()||void 0;f(!0),r(null);try{s(await v("/pallas",{registry_url:h("registry_url"),name:h("name"),agent_token:h("agent_token"),id:h("id")}))}catch(l){r(l instanceof y?l:new y(0,{error:g(l)})),f(!1)}},d=n=>o?.field===n?g(o):null,F=o&&!["registry_url","name","agent_token","id"].includes(o.field??"");return t`<${T} title="Add a Pallas instance" onClose=${e}><form onSubmit=${i}>
    <div class="dialog-body">
      <${p} label="Registry URL" for=${`${a}-url`} error=${d("registry_url")}
        hint="Where the instance lists its agents. The path /.well-known/mcp/server.json is added if it is missing.">
        <input id=${`${a}-url`} name="registry_url" type="text" inputmode="url" required autofocus spellcheck="false" autocomplete="off"
          placeholder="https://puck.incus:24000/teams/research" aria-describedby=${`${a}-url-hint`} aria-invalid=${!!d("registry_url")} /><//>
      ${o?.faults.length?t`<ul class="faults">${o.faults.map(n=>t`<li><code>${n.field}</code> ${n.reason}</li>`)}</ul>`:null}
      <${p} label="Name" for=${`${a}-name`} error=${d("name")} hint="Without one, the registry's own name is taken.">
        <input id=${`${a}-name`} name="name" autocomplete="off" maxlength="200" placeholder="Research" aria-describedby=${`${a}-name-hint`} /><//>
      <${p} label="Agent token" for=${`${a}-token`} error=${d("agent_token")} hint="Only if its gateway asks for a bearer. It is stored encrypted and never shown again.">
        <input id=${`${a}-token`} name="agent_token" type="password" autocomplete="off" aria-describedby=${`${a}-token-hint`} /><//>
      <details class="more-fields" open=${o?.field==="id"||void 0}><summary>Mnemosyne has the team already</summary>
        <${p} label="Team id" for=${`${a}-id`} error=${d("id")} hint="The instance becomes this team, and its JWT is replaced.">
          <input id=${`${a}-id`} name="id" autocomplete="off" spellcheck="false" placeholder="4b6f3c1e-8f0a-4f6b-9d51-6c2f0e7a9b34" aria-describedby=${`${a}-id-hint`} /><//></details>
      ${F&&t`<${$} tone="bad">${g(o)}<//>`}
    </div>
    <footer><${c} onClick=${e}>Cancel<//><${c} kind="primary" type="submit" busy=${u}>Add instance<//></footer>
  </form><//>`}function j(){let e=E(()=>_("/pallas").then(r=>r.instances),[],["instance","health"]),[s,a]=m(!1);k(()=>{document.title="Pallas instances \xB7 Pallas"},[]);let u=t`<${c} kind="primary" icon="plus" onClick=${()=>a(!0)}>Add instance<//>`,f=r=>{e.data?.some(i=>i.id===r.id)&&R(`${r.name} is registered already.`),A(`/instances/${encodeURIComponent(r.id)}`)},o=r=>e.data&&e.set(e.data.map(i=>i.id===r.id?r:i));return t`<div class="page">
    <header class="page-head"><div class="grow"><h1>Pallas instances</h1>
      <p>Registries whose agents can be attached to workspaces. Each instance is one team in Mnemosyne.</p></div>${e.data?.length?u:null}</header>
    ${e.data?e.data.length?t`<div class="cards">${e.data.map(r=>t`<${J} key=${r.id} instance=${r} onDone=${o} />`)}</div>`:t`<${C} icon="server" title="No instance is registered" action=${u}>
        Add the URL of a registry. Its agents appear here, and can then be attached to workspaces.<//>`:t`<${L} loaded=${e} />`}
    ${s&&t`<${W} onClose=${()=>a(!1)} onAdded=${f} />`}
  </div>`}var J=({instance:e,onDone:s})=>t`<article class="card instance" aria-label=${e.name}>
  <header><div class="grow"><h2><a href=${`/instances/${encodeURIComponent(e.id)}`} dir="auto">${e.name}</a></h2>
      <p class="muted url">${x(e.registry_url)}</p></div>
    ${e.jwt==="ready"&&t`<${I} tone="warn" icon="key-round" title="It was not shown yet">JWT ready<//>`}
    <${B} instance=${e} /></header>
  <${P} instance=${e} onDone=${s} />
  ${e.drift&&t`<${$} tone="warn">${e.drift}<//>`}
  ${e.last_fetch_error&&t`<${$} tone="warn" icon="wifi-off">The registry could not be read: ${e.last_fetch_error}<//>`}
  ${e.agents.length?t`<${D} agents=${e.agents} />`:t`<p class="muted">No agents are known yet.</p>`}
  <${S} entries=${e.unusable} />
  <footer class="muted">${b(e.agents.length,"agent")} · attached to ${b(e.workspace_ids.length,"workspace")} · fetched <${U} at=${e.last_fetched_at} /></footer>
</article>`;export{j as default};
