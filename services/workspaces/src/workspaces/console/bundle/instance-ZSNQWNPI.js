import{a as F}from"./chunk-WUIOUQUI.js";import"./chunk-UBOMOS4M.js";import{a as P,b as V,d as Y,e as G}from"./chunk-WZWPJSNW.js";import{c as b}from"./chunk-IA3H2LQF.js";import{a as M,b as v,c as B}from"./chunk-BQLJPCL7.js";import{$ as O,A as j,D as L,E as R,F as u,H as W,I as q,J as $,S as H,T as f,V as l,_ as m,ba as k,ca as T,d as h,da as g,e as A,ea as I,ga as D,ha as J,j as _,ja as z,q as t,s as w,u as U,v as C}from"./chunk-UCKJDYVP.js";function Q({instance:e,onChanged:o}){let{busy:r,run:s}=v(),n=()=>s(async()=>o(await u($`/pallas/${e.id}/check`)),I),{believed:a,drift:i}=e,c=se(e);return t`<section class="card" aria-labelledby="believed-title">
    <header><div class="grow"><h2 id="believed-title">Mnemosyne</h2>
      <p class="muted">${a?t`Asked <${b} at=${a.at} />`:"Not asked yet"} · ${e.pushed_at?t`last told <${b} at=${e.pushed_at} />`:"no workspaces told yet"}</p></div>
      <${l} icon="refresh-cw" busy=${r} onClick=${n}>Ask now<//></header>
    ${i?t`<${m} tone="warn">${i}<//>`:a&&t`<p class="lead ok"><${f} name="circle-check" />${re(a)}</p>`}
    ${a?.active===null&&t`<p class="muted">Mnemosyne knows no such team.</p>`}
    ${c.length>0&&t`<table class="beliefs"><thead><tr><th scope="col">Workspace</th><th scope="col">Attached here</th><th scope="col">In Mnemosyne</th></tr></thead>
      <tbody>${c.map(d=>t`<tr key=${d.id} class=${d.there!==null&&d.here!==d.there?"differs":""}>
        <th scope="row" dir="auto">${d.name}</th><td><${K} yes=${d.here} /></td><td><${K} yes=${d.there} /></td></tr>`)}</tbody></table>`}
  </section>`}var re=e=>e.active===!1?"Mnemosyne has retired this team, as it should.":"Mnemosyne believes exactly what is attached here.",K=({yes:e})=>e===null?t`<span class="muted">not known</span>`:t`<span class=${e?"yes":"no"}><${f} name=${e?"check":"x"} size=${14} />${e?"yes":"no"}</span>`;function se(e){let o=e.believed,r=[...new Set([...e.workspace_ids,...o?.workspace_ids??[]])],s=new Map((j.value??[]).map(n=>[n.id,n.name]));return r.map(n=>({id:n,name:s.get(n)??n,here:e.workspace_ids.includes(n),there:o?o.workspace_ids.includes(n):null}))}function S(e,o){let{busy:r,error:s,fault:n,run:a}=v(),i=c=>{c.preventDefault(),a(()=>e().then(o))};return{busy:r,error:s,field:n?.field??"",run:i}}function X({instance:e,onClose:o,onDone:r}){let s=_(),[n,a]=h(e.name),[i,c]=h(e.registry_url),d={...n.trim()!==e.name&&{name:n.trim()},...i.trim()!==e.registry_url&&{registry_url:i.trim()}},{busy:x,error:p,field:y,run:ne}=S(async()=>r(await W($`/pallas/${e.id}`,d)),o);return t`<${D} title="Edit the instance" onClose=${o}><form onSubmit=${ne}>
    <div class="dialog-body">
      <${k} label="Name" for=${`${s}-name`} error=${y==="name"&&p} hint="It stands in front of each of its agents. Mnemosyne keeps the name that the team was made with.">
        <input id=${`${s}-name`} value=${n} required maxlength="200" autofocus dir="auto" onInput=${w(a)} /><//>
      <${k} label="Registry URL" for=${`${s}-url`} error=${y==="registry_url"&&p} hint="For an instance that has moved. It stays the same team, with its JWT and its workspaces.">
        <input id=${`${s}-url`} value=${i} required spellcheck="false" inputmode="url" onInput=${w(c)} /><//>
      ${p&&!["name","registry_url"].includes(y)&&t`<${m} tone="bad">${p}<//>`}</div>
    <footer><${l} onClick=${o}>Cancel<//><${l} kind="primary" type="submit" busy=${x} disabled=${!n.trim()||!i.trim()||!Object.keys(d).length}>Save<//></footer></form><//>`}function Z({instance:e,onClose:o,onDone:r}){let s=_(),[n,a]=h(""),i=async y=>{r(await W($`/pallas/${e.id}`,{agent_token:y})),g(y?"The agent token is stored.":"The agent token was removed.")},{busy:c,error:d,run:x}=S(()=>i(n),o),p=S(()=>i(""),o);return t`<${D} title="Agent token" onClose=${o}><form onSubmit=${x}>
    <div class="dialog-body"><${k} label="Token" for=${s} error=${d||p.error}
      hint="The bearer with which this console calls the agents, if their gateway asks for one. It is stored encrypted and never shown again.">
      <input id=${s} type="password" value=${n} required autofocus autocomplete="off" onInput=${w(a)} /><//></div>
    <footer>${e.has_agent_token&&t`<${l} kind="danger" busy=${p.busy} onClick=${p.run}>Remove<//><span class="grow" />`}
      <${l} onClick=${o}>Cancel<//><${l} kind="primary" type="submit" busy=${c} disabled=${!n.trim()}>Store<//></footer></form><//>`}function ee({instance:e,onClose:o,onDone:r}){let s=_(),[n,a]=h(""),{busy:i,error:c,run:d}=S(async()=>{await q($`/pallas/${e.id}`),g(`${e.name} was deleted.`),r()},o);return t`<${D} title=${`Delete ${e.name}?`} onClose=${o}><form onSubmit=${d}>
    <div class="dialog-body"><p>Its agents leave all workspaces, its team is retired in Mnemosyne, and its JWT stops working. This cannot be undone: registered anew, it is another team.</p>
      <${k} label=${t`Type <b dir="auto">${e.name}</b> to confirm`} for=${s}>
        <input id=${s} value=${n} autocomplete="off" autofocus dir="auto" onInput=${w(a)} /><//>
      ${c&&t`<${m} tone="bad">${c}<//>`}</div>
    <footer><${l} onClick=${o}>Cancel<//><${l} kind="danger" type="submit" busy=${i} disabled=${n.trim()!==e.name.trim()}>Delete instance<//></footer></form><//>`}var te={none:["lock","There is no JWT yet. Mnemosyne makes one when it creates the team."],ready:["key-round","A JWT is ready. It can be shown once; copy it into the team's secrets then."],revealed:["eye-off","The JWT was shown and cannot be shown again. Rotate it to get another one."]};function ae({instance:e,onChanged:o}){let[r,s]=h(null);A(()=>{let d=()=>s(null);return addEventListener("pagehide",d),()=>removeEventListener("pagehide",d)},[]),A(()=>s(null),[e.id]);let n=()=>J({title:"Show the team JWT?",text:"It is shown once. Have the team's secrets file at hand: when you leave this page, it is gone, and only rotating makes another one.",action:"Reveal once",act:async()=>{s(await u($`/pallas/${e.id}/reveal`)),o({...e,jwt:"revealed"})}}),a=()=>J({title:`Rotate the JWT of ${e.name}?`,text:"The old JWT stops working at once. Until the new one is in the team's secrets, its agents cannot reach Mnemosyne.",action:"Rotate team JWT",danger:!0,act:async()=>{s(null),o(await u($`/pallas/${e.id}/rotate`)),g("The JWT was rotated. The new one can be revealed once.")}}),[i,c]=te[e.jwt]??te.none;return t`<section class="card" aria-labelledby="token-title">
    <header><h2 id="token-title" class="grow">Team JWT</h2>
      ${e.jwt==="ready"&&!r&&t`<${l} kind="primary" icon="eye" onClick=${n}>Reveal once<//>`}
      ${e.jwt!=="none"&&t`<${l} icon="rotate-ccw" onClick=${a}>Rotate team JWT<//>`}</header>
    ${r?t`<${ie} shown=${r} onHide=${()=>s(null)} />`:t`<p class="lead"><${f} name=${i} />${c}</p>`}
  </section>`}var ie=({shown:e,onHide:o})=>t`
  <${m} tone="warn" action=${t`<${l} small icon="eye-off" onClick=${o}>Hide<//>`}>Shown once. It is gone when you leave or reload this page.<//>
  <${oe} label="JWT" text=${e.jwt} />
  <${oe} label=${`For ${e.file} of the team`} text=${e.stanza} />`,oe=({label:e,text:o})=>t`<figure class="secret"><figcaption><span class="grow">${e}</span><${T} text=${o} label=${`Copy: ${e}`} /></figcaption>
  <pre tabindex="0" aria-label=${e}><code>${o}</code></pre></figure>`;var N={};function le(e){if(e instanceof L&&e.status===404)return N;throw e}function de({params:e}){let{id:o}=e,r=M(()=>R($`/pallas/${o}`).catch(le),[o],["instance","health"]),[s,n]=h(null),a=r.data;if(U(a?.name??"Instance"),!a||a!==N&&a.id!==o)return t`<div class="page"><${E} /><${B} loaded=${r} lines=${8} /></div>`;if(a===N)return t`<div class="page"><${E} /><${O} icon="server" whole title="There is no such instance" action=${t`<${l} href="/instances">Pallas instances<//>`}>
      It may have been deleted.<//></div>`;let i=()=>n(null);return t`<div class="page">
    <${E} /><${ce} instance=${a} loaded=${r} open=${n} />
    <${V} instance=${a} onDone=${r.set} />
    <${ae} instance=${a} onChanged=${r.set} />
    <${Q} instance=${a} onChanged=${r.set} />
    <section class="card" aria-labelledby="agents-title"><header><h2 id="agents-title" class="grow">${C(a.agents.length,"agent")}</h2></header>
      ${a.agents.length?t`<${Y} agents=${a.agents} full />`:t`<p class="muted">The registry has listed none so far.</p>`}
      <${G} entries=${a.unusable} /></section>
    <${me} instance=${a} onToken=${()=>n("token")} />
    <${he} id=${o} />
    ${s==="edit"&&t`<${X} instance=${a} onClose=${i} onDone=${r.set} />`}
    ${s==="token"&&t`<${Z} instance=${a} onClose=${i} onDone=${r.set} />`}
    ${s==="delete"&&t`<${ee} instance=${a} onClose=${i} onDone=${()=>H("/instances")} />`}
  </div>`}var E=()=>t`<nav aria-label="Breadcrumb" class="crumbs"><a href="/instances"><${f} name="arrow-left" size=${14} />Pallas instances</a></nav>`;function ce({instance:e,loaded:o,open:r}){let{busy:s,run:n}=v(),a=()=>n(async()=>{let i=await u($`/pallas/${e.id}/refresh`);o.set(i),i.last_fetch_error||g(`The registry lists ${C(i.agents.length,"agent")}.`)},i=>{I(i),o.reload()});return t`<header><div><div class="row wrap"><h1 dir="auto">${e.name}</h1><${P} instance=${e} /></div>
      <p>${$e(e.workspace_ids.length)} · registry fetched <${b} at=${e.last_fetched_at} /></p></div>
    <div class="row"><${l} icon="refresh-cw" busy=${s} onClick=${a}>Refresh<//>
      <${z} label="More" actions=${[{label:"Edit",icon:"pencil",act:()=>r("edit")},{label:"Agent token",icon:"key-round",act:()=>r("token")},{label:"Delete",icon:"trash-2",danger:!0,act:()=>r("delete")}]} /></div></header>
    ${o.error&&t`<${m} tone="warn" icon="wifi-off">${o.error}<//>`}
    ${e.last_fetch_error&&t`<${m} tone="warn" icon="wifi-off">The registry could not be read: ${e.last_fetch_error}. The agents are those of the last fetch.<//>`}`}var $e=e=>e?`Attached to ${C(e,"workspace")}`:"Not attached to any workspace",me=({instance:e,onToken:o})=>t`<section class="card" aria-labelledby="about-title">
  <header><h2 id="about-title" class="grow">About</h2></header>
  <dl class="pairs">
    <div><dt>Registry</dt><dd class="mono">${e.registry_url}<${T} text=${e.registry_url} label="Copy the URL" /></dd></div>
    <div><dt>Instance and team id</dt><dd class="mono">${e.id}<${T} text=${e.id} label="Copy the id" /></dd></div>
    ${e.namespace&&t`<div><dt>Namespace</dt><dd class="mono">${e.namespace}</dd></div>`}
    <div><dt>Agent token</dt><dd>${e.has_agent_token?"stored, encrypted":"none; agents are called without a bearer of their own"}<${l} small kind="quiet" onClick=${o}>${e.has_agent_token?"Replace":"Set"}<//></dd></div>
    <div><dt>Registered</dt><dd><${b} at=${e.created_at} /></dd></div>
  </dl></section>`;function he({id:e}){let o=M(()=>R(`/hooks?instance_id=${encodeURIComponent(e)}&limit=10`),[e],["hooks"]);return t`<section aria-labelledby="runs-title" class="stack-small"><div class="row"><h2 id="runs-title" class="grow">Deliveries</h2>
      <a href=${`/deliveries?instance=${encodeURIComponent(e)}`}>All deliveries</a></div>
    ${o.data?o.data.runs.length?t`<${F} runs=${o.data.runs} label="Deliveries of this instance" />`:t`<p class="muted">Mnemosyne was not told anything about this instance yet.</p>`:t`<${B} loaded=${o} />`}</section>`}export{de as default};
