import{d as D}from"./chunk-K2GRVMI3.js";import{a as O,b as P,c as S,d as W,e as x}from"./chunk-CWSOCPIE.js";import{a as R,b as U,c as B}from"./chunk-RXJ4GH74.js";import{a as C}from"./chunk-UEHZZART.js";import{D as k,E as w,J as u,R as _,X as d,Z as v,aa as l,ba as A,d as g,da as m,ga as T,i as y,ja as I,p as t,t as b,u as p}from"./chunk-WZYHQKR3.js";function L({onClose:e,onAdded:s}){let a=y(),{busy:$,fault:o,run:f}=U(),r=i=>{i.preventDefault();let j=new FormData(i.target),c=F=>String(j.get(F)??"").trim()||void 0,E={registry_url:c("registry_url"),name:c("name"),agent_token:c("agent_token"),id:c("id")};f(async()=>s(await w("/pallas",E)))},n=i=>o?.field===i?u(o):null,N=o&&!["registry_url","name","agent_token","id"].includes(o.field??"");return t`<${I} title="Add a Pallas instance" onClose=${e}><form onSubmit=${r}>
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
      ${N&&t`<${l} tone="bad">${u(o)}<//>`}
    </div>
    <footer><${d} onClick=${e}>Cancel<//><${d} kind="primary" type="submit" busy=${$}>Add instance<//></footer>
  </form><//>`}function J(){let e=R(()=>k("/pallas").then(r=>r.instances),[],["instance","health"]),[s,a]=g(!1);b("Pallas instances");let $=t`<${d} kind="primary" icon="plus" onClick=${()=>a(!0)}>Add instance<//>`,o=r=>{e.data?.some(n=>n.id===r.id)&&T(`${r.name} is registered already.`),_(h(r))},f=r=>e.data&&e.set(e.data.map(n=>n.id===r.id?r:n));return t`<div class="page">
    <header class="page-head"><div class="grow"><h1>Pallas instances</h1>
      <p>Registries whose agents can be attached to workspaces. Each instance is one team in Mnemosyne.</p></div>${e.data?.length?$:null}</header>
    ${e.data?e.data.length?t`<div class="cards">${e.data.map(r=>t`<${q} key=${r.id} instance=${r} onDone=${f} />`)}</div>`:t`<${A} icon="server" title="No instance is registered" action=${$}>
        Add the URL of a registry. Its agents appear here, and can then be attached to workspaces.<//>`:t`<${B} loaded=${e} />`}
    ${s&&t`<${L} onClose=${()=>a(!1)} onAdded=${o} />`}
  </div>`}var M=6,h=e=>`/instances/${encodeURIComponent(e.id)}`,q=({instance:e,onDone:s})=>t`<article class="card instance" aria-label=${e.name}>
  <header><div class="grow"><h2><a href=${h(e)} dir="auto">${e.name}</a></h2>
      <p class="muted url">${x(e.registry_url)}</p></div>
    ${e.jwt==="ready"&&t`<${v} tone="warn" icon="key-round" title="It was not shown yet">JWT ready<//>`}
    <${O} instance=${e} /></header>
  <${P} instance=${e} onDone=${s} />
  ${e.drift&&t`<${l} tone="warn">${e.drift}<//>`}
  ${e.last_fetch_error&&t`<${l} tone="warn" icon="wifi-off">The registry could not be read: ${e.last_fetch_error}<//>`}
  ${e.agents.length?t`<${S} agents=${D(e.agents,M)} />`:t`<p class="muted">No agents are known yet.</p>`}
  ${e.agents.length>M&&t`<p><a href=${h(e)}>All ${p(e.agents.length,"agent")}</a></p>`}
  <${W} entries=${e.unusable} />
  <footer class="muted">${p(e.agents.length,"agent")} · attached to ${p(e.workspace_ids.length,"workspace")} · fetched <${C} at=${e.last_fetched_at} /></footer>
</article>`;export{J as default};
