import{a as B,b as D,c as P,d as W,e as x}from"./chunk-TNWFV4BW.js";import{c as T}from"./chunk-N3ATM22T.js";import{a as C,b as R,c as U}from"./chunk-NSP67OLW.js";import{$ as v,E as b,F as k,K as f,S as w,V as d,X as _,_ as l,ba as m,d as h,da as A,ga as I,j as g,q as t,u as y,v as u}from"./chunk-OCILXL7U.js";function L({onClose:e,onAdded:s}){let a=g(),{busy:$,fault:o,run:p}=R(),r=i=>{i.preventDefault();let N=new FormData(i.target),c=E=>String(N.get(E)??"").trim()||void 0,j={registry_url:c("registry_url"),name:c("name"),agent_token:c("agent_token"),id:c("id")};p(async()=>s(await k("/pallas",j)))},n=i=>o?.field===i?f(o):null,S=o&&!["registry_url","name","agent_token","id"].includes(o.field??"");return t`<${I} title="Add a Pallas instance" onClose=${e}><form onSubmit=${r}>
    <div class="dialog-body">
      <${m} label="Registry URL" for=${`${a}-url`} error=${n("registry_url")}
        hint="Where the instance lists its agents. The path /.well-known/mcp/server.json is added if it is missing.">
        <input id=${`${a}-url`} name="registry_url" type="text" inputmode="url" required autofocus spellcheck="false" autocomplete="off"
          placeholder="https://puck.incus:24000/teams/research" aria-describedby=${`${a}-url-hint`} aria-invalid=${!!n("registry_url")} /><//>
      ${o?.faults.length?t`<ul class="faults">${o.faults.map(i=>t`<li><code>${i.field}</code> ${i.reason}</li>`)}</ul>`:null}
      <${m} label="Name" for=${`${a}-name`} error=${n("name")} hint="Without one, the registry's own name is taken.">
        <input id=${`${a}-name`} name="name" autocomplete="off" maxlength="200" placeholder="Research" aria-describedby=${`${a}-name-hint`} /><//>
      <${m} label="Agent token" for=${`${a}-token`} error=${n("agent_token")} hint="Only if its gateway asks for a bearer. It is stored encrypted and never shown again.">
        <input id=${`${a}-token`} name="agent_token" type="password" autocomplete="off" aria-describedby=${`${a}-token-hint`} /><//>
      <details class="more-fields" open=${o?.field==="id"||void 0}><summary>Mnemosyne has the team already</summary>
        <${m} label="Team id" for=${`${a}-id`} error=${n("id")} hint="The instance becomes this team, and its JWT is replaced.">
          <input id=${`${a}-id`} name="id" autocomplete="off" spellcheck="false" placeholder="4b6f3c1e-8f0a-4f6b-9d51-6c2f0e7a9b34" aria-describedby=${`${a}-id-hint`} /><//></details>
      ${S&&t`<${l} tone="bad">${f(o)}<//>`}
    </div>
    <footer><${d} onClick=${e}>Cancel<//><${d} kind="primary" type="submit" busy=${$}>Add instance<//></footer>
  </form><//>`}function F(){let e=C(()=>b("/pallas").then(r=>r.instances),[],["instance","health"]),[s,a]=h(!1);y("Pallas instances");let $=t`<${d} kind="primary" icon="plus" onClick=${()=>a(!0)}>Add instance<//>`,o=r=>{e.data?.some(n=>n.id===r.id)&&A(`${r.name} is registered already.`),w(`/instances/${encodeURIComponent(r.id)}`)},p=r=>e.data&&e.set(e.data.map(n=>n.id===r.id?r:n));return t`<div class="page">
    <header class="page-head"><div class="grow"><h1>Pallas instances</h1>
      <p>Registries whose agents can be attached to workspaces. Each instance is one team in Mnemosyne.</p></div>${e.data?.length?$:null}</header>
    ${e.data?e.data.length?t`<div class="cards">${e.data.map(r=>t`<${J} key=${r.id} instance=${r} onDone=${p} />`)}</div>`:t`<${v} icon="server" title="No instance is registered" action=${$}>
        Add the URL of a registry. Its agents appear here, and can then be attached to workspaces.<//>`:t`<${U} loaded=${e} />`}
    ${s&&t`<${L} onClose=${()=>a(!1)} onAdded=${o} />`}
  </div>`}var J=({instance:e,onDone:s})=>t`<article class="card instance" aria-label=${e.name}>
  <header><div class="grow"><h2><a href=${`/instances/${encodeURIComponent(e.id)}`} dir="auto">${e.name}</a></h2>
      <p class="muted url">${x(e.registry_url)}</p></div>
    ${e.jwt==="ready"&&t`<${_} tone="warn" icon="key-round" title="It was not shown yet">JWT ready<//>`}
    <${B} instance=${e} /></header>
  <${D} instance=${e} onDone=${s} />
  ${e.drift&&t`<${l} tone="warn">${e.drift}<//>`}
  ${e.last_fetch_error&&t`<${l} tone="warn" icon="wifi-off">The registry could not be read: ${e.last_fetch_error}<//>`}
  ${e.agents.length?t`<${P} agents=${e.agents} />`:t`<p class="muted">No agents are known yet.</p>`}
  <${W} entries=${e.unusable} />
  <footer class="muted">${u(e.agents.length,"agent")} · attached to ${u(e.workspace_ids.length,"workspace")} · fetched <${T} at=${e.last_fetched_at} /></footer>
</article>`;export{F as default};
