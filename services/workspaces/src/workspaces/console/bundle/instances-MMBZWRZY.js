import{d as x}from"./chunk-K2GRVMI3.js";import{a as N}from"./chunk-SKG77I26.js";import{a as R,b as E,c as L,d as j,e as F}from"./chunk-OAZP6LY6.js";import"./chunk-D4TYM3FH.js";import{a as v,b as f,c as O}from"./chunk-HR37JXIA.js";import{a as B}from"./chunk-ARTTMC5D.js";import"./chunk-KEK4B245.js";import{c as C,g as n,i as D,l,m as S,o as m,r as k,s as U,v as W}from"./chunk-6OHBJNTC.js";import{E as b,F as u,K as w,d as A,i as T,p as t,t as I,u as p}from"./chunk-VQFA7AQP.js";function J({onClose:e,onAdded:d}){let r=T(),{busy:$,fault:o,run:h}=f(),g=a=>{a.preventDefault();let s=new FormData(a.target),c=M=>String(s.get(M)??"").trim()||void 0,q={registry_url:c("registry_url"),name:c("name"),agent_token:c("agent_token"),id:c("id")};h(async()=>d(await u("/pallas",q)))},i=a=>o?.field===a?w(o):null,y=o&&!["registry_url","name","agent_token","id"].includes(o.field??"");return t`<${W} title="Add a team" onClose=${e}><form onSubmit=${g}>
    <div class="dialog-body">
      <${m} label="Registry URL" for=${`${r}-url`} error=${i("registry_url")}
        hint="Where the team lists its agents. The path /.well-known/mcp/server.json is added if it is missing.">
        <input id=${`${r}-url`} name="registry_url" type="text" inputmode="url" required autofocus spellcheck="false" autocomplete="off"
          placeholder="https://puck.incus:24000/teams/research" aria-describedby=${`${r}-url-hint`} aria-invalid=${!!i("registry_url")} /><//>
      ${o?.faults.length?t`<ul class="faults">${o.faults.map(a=>t`<li><code>${a.field}</code> ${a.reason}</li>`)}</ul>`:null}
      <${m} label="Name" for=${`${r}-name`} error=${i("name")} hint="Without one, it is made of the address.">
        <input id=${`${r}-name`} name="name" autocomplete="off" maxlength="200" placeholder="Research" aria-describedby=${`${r}-name-hint`} /><//>
      <${m} label="Agent token" for=${`${r}-token`} error=${i("agent_token")} hint="Only if its gateway asks for a bearer. It is stored encrypted and never shown again.">
        <input id=${`${r}-token`} name="agent_token" type="password" autocomplete="off" aria-describedby=${`${r}-token-hint`} /><//>
      <details class="more-fields" open=${o?.field==="id"||void 0}><summary>The libraries have the team already</summary>
        <${m} label="Team id" for=${`${r}-id`} error=${i("id")} hint="It becomes this team, and its JWT is replaced.">
          <input id=${`${r}-id`} name="id" autocomplete="off" spellcheck="false" placeholder="4b6f3c1e-8f0a-4f6b-9d51-6c2f0e7a9b34" aria-describedby=${`${r}-id-hint`} /><//></details>
      ${y&&t`<${l} tone="bad">${w(o)}<//>`}
    </div>
    <footer><${n} onClick=${e}>Cancel<//><${n} kind="primary" type="submit" busy=${$}>Add team<//></footer>
  </form><//>`}function V(){let e=v(()=>b("/pallas").then(a=>a.instances),[],["instance","health"]),[d,r]=A(!1);I("Teams");let $=t`<${n} kind="primary" icon="plus" onClick=${()=>r(!0)}>Add team<//>`,o=a=>{e.data?.some(s=>s.id===a.id)&&k(`${a.name} is here already.`),C(_(a))},{busy:h,run:g}=f(),i=()=>g(async()=>{await u("/deliveries/reconcile"),k("Every team is compared with the libraries now.")},U),y=a=>e.data&&e.set(e.data.map(s=>s.id===a.id?a:s));return t`<div class="page">
    <header class="page-head"><div class="grow"><h1>Teams</h1>
      <p>Teams of agents. Attach a team to a workspace to talk to its agents there; it then reads the workspace's libraries.</p></div>${e.data?.length?t`<${n} icon="refresh-cw" busy=${h} onClick=${i}>Sync now<//>${$}`:null}</header>
    ${e.data?e.data.length?t`<div class="cards">${e.data.map(a=>t`<${G} key=${a.id} instance=${a} onDone=${y} />`)}</div>`:t`<${S} icon="users" title="No teams yet" action=${$}>
        Add the address of a registry. Its agents appear here, and can then be attached to workspaces.<//>`:t`<${O} loaded=${e} />`}
    <${z} />
    ${d&&t`<${J} onClose=${()=>r(!1)} onAdded=${o} />`}
  </div>`}function z(){let{data:e}=v(()=>b("/deliveries"),[],["instance"]);return e?.waiting?t`<section aria-labelledby="sync-title" class="stack-small">
    <h2 id="sync-title">Not in sync with the libraries</h2>
    <p class="muted">Changes that the libraries are not known to have. Each is tried again until it succeeds.</p>
    <${N} deliveries=${e.deliveries} named /></section>`:null}var P=6,_=e=>`/teams/${encodeURIComponent(e.id)}`,G=({instance:e,onDone:d})=>t`<article class="card instance" aria-label=${e.name}>
  <header><div class="grow"><h2><a href=${_(e)} dir="auto">${e.name}</a></h2>
      <p class="muted url">${F(e.registry_url)}</p></div>
    ${e.jwt==="ready"&&t`<${D} tone="warn" icon="key-round" title="It was not shown yet">JWT ready<//>`}
    <${R} instance=${e} /></header>
  <${E} instance=${e} onDone=${d} />
  ${e.drift&&t`<${l} tone="warn">${e.drift}<//>`}
  ${e.last_fetch_error&&t`<${l} tone="warn" icon="wifi-off">Its agents could not be read: ${e.last_fetch_error}<//>`}
  ${e.agents.length?t`<${L} agents=${x(e.agents,P)} />`:t`<p class="muted">No agents are known yet.</p>`}
  ${e.agents.length>P&&t`<p><a href=${_(e)}>All ${p(e.agents.length,"agent")}</a></p>`}
  <${j} entries=${e.unusable} />
  <footer class="muted">${p(e.agents.length,"agent")} · attached to ${p(e.workspace_ids.length,"workspace")} · read <${B} at=${e.last_fetched_at} /></footer>
</article>`;export{V as default};
