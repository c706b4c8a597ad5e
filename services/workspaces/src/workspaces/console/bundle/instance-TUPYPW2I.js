import{a as P}from"./chunk-77IHD7WJ.js";import{a as V,b as Y,c as G,d as K}from"./chunk-CWSOCPIE.js";import"./chunk-2E25RMMV.js";import{a as E,b as v,c as M}from"./chunk-RXJ4GH74.js";import{a as b}from"./chunk-UEHZZART.js";import{C as q,D as R,E as u,G as J,H,I as $,R as O,U as f,X as l,aa as h,ba as z,d as p,da as T,e as C,fa as _,g as A,ga as g,ha as S,i as I,ja as x,ka as B,ma as F,p as t,r as k,t as j,u as D,z as L}from"./chunk-WZYHQKR3.js";function X({instance:e,onChanged:o}){let{busy:r,run:s}=v(),n=()=>s(async()=>o(await u($`/pallas/${e.id}/check`)),S),{believed:a,drift:i}=e,c=ie(e);return t`<section class="card" aria-labelledby="believed-title">
    <header><div class="grow"><h2 id="believed-title">Mnemosyne</h2>
      <p class="muted">${a?t`Asked <${b} at=${a.at} />`:"Not asked yet"} · ${e.pushed_at?t`last told <${b} at=${e.pushed_at} />`:"no workspaces told yet"}</p></div>
      <${l} icon="refresh-cw" busy=${r} onClick=${n}>Ask now<//></header>
    ${a?.error&&t`<${h} tone="warn">Since then it could not be compared: ${a.error}.<//>`}
    ${i?t`<${h} tone="warn">${i}<//>`:a&&!a.error&&t`<p class="lead ok"><${f} name="circle-check" />${se(a)}</p>`}
    ${a?.active===null&&t`<p class="muted">Mnemosyne knows no such team.</p>`}
    ${c.length>0&&t`<table class="beliefs"><thead><tr><th scope="col">Workspace</th><th scope="col">Attached here</th><th scope="col">In Mnemosyne</th></tr></thead>
      <tbody>${c.map(d=>t`<tr key=${d.id} class=${d.there!==null&&d.here!==d.there?"differs":""}>
        <th scope="row" dir="auto">${d.name}</th><td><${Q} yes=${d.here} /></td><td><${Q} yes=${d.there} /></td></tr>`)}</tbody></table>`}
  </section>`}var se=e=>e.active===!1?"Mnemosyne has retired this team, as it should.":"Mnemosyne believes exactly what is attached here.",Q=({yes:e})=>e===null?t`<span class="muted">not known</span>`:t`<span class=${e?"yes":"no"}><${f} name=${e?"check":"x"} size=${14} />${e?"yes":"no"}</span>`;function ie(e){let o=e.believed,r=[...new Set([...e.workspace_ids,...o?.workspace_ids??[]])],s=new Map((L.value??[]).map(n=>[n.id,n.name]));return r.map(n=>({id:n,name:s.get(n)??n,here:e.workspace_ids.includes(n),there:o?o.workspace_ids.includes(n):null}))}function W(e,o){let{busy:r,error:s,fault:n,run:a}=v(),i=c=>{c.preventDefault(),a(()=>e().then(o))};return{busy:r,error:s,field:n?.field??"",run:i}}function Z({instance:e,onClose:o,onDone:r}){let s=I(),[n,a]=p(e.name),[i,c]=p(e.registry_url),d={...n.trim()!==e.name&&{name:n.trim()},...i.trim()!==e.registry_url&&{registry_url:i.trim()}},{busy:w,error:m,field:y,run:re}=W(async()=>r(await J($`/pallas/${e.id}`,d)),o);return t`<${x} title="Edit the instance" onClose=${o}><form onSubmit=${re}>
    <div class="dialog-body">
      <${T} label="Name" for=${`${s}-name`} error=${y==="name"&&m} hint="It stands in front of each of its agents.">
        <input id=${`${s}-name`} value=${n} required maxlength="200" autofocus dir="auto" onInput=${k(a)} /><//>
      <${T} label="Registry URL" for=${`${s}-url`} error=${y==="registry_url"&&m} hint="For an instance that has moved. It stays the same team, with its JWT and its workspaces.">
        <input id=${`${s}-url`} value=${i} required spellcheck="false" inputmode="url" onInput=${k(c)} /><//>
      ${m&&!["name","registry_url"].includes(y)&&t`<${h} tone="bad">${m}<//>`}</div>
    <footer><${l} onClick=${o}>Cancel<//><${l} kind="primary" type="submit" busy=${w} disabled=${!n.trim()||!i.trim()||!Object.keys(d).length}>Save<//></footer></form><//>`}function ee({instance:e,onClose:o,onDone:r}){let s=I(),[n,a]=p(""),i=async y=>{r(await J($`/pallas/${e.id}`,{agent_token:y})),g(y?"The agent token is stored.":"The agent token was removed.")},{busy:c,error:d,run:w}=W(()=>i(n),o),m=W(()=>i(""),o);return t`<${x} title="Agent token" onClose=${o}><form onSubmit=${w}>
    <div class="dialog-body"><${T} label="Token" for=${s} error=${d||m.error}
      hint="The bearer with which this console calls the agents, if their gateway asks for one. It is stored encrypted and never shown again.">
      <input id=${s} type="password" value=${n} required autofocus autocomplete="off" onInput=${k(a)} /><//></div>
    <footer>${e.has_agent_token&&t`<${l} kind="danger" busy=${m.busy} onClick=${m.run}>Remove<//><span class="grow" />`}
      <${l} onClick=${o}>Cancel<//><${l} kind="primary" type="submit" busy=${c} disabled=${!n.trim()}>Store<//></footer></form><//>`}function te({instance:e,onClose:o,onDone:r}){let s=I(),[n,a]=p(""),{busy:i,error:c,run:d}=W(async()=>{await H($`/pallas/${e.id}`),g(`${e.name} was deleted.`),r()},o);return t`<${x} title=${`Delete ${e.name}?`} onClose=${o}><form onSubmit=${d}>
    <div class="dialog-body"><p>Its agents leave all workspaces, its team is retired in Mnemosyne, and its JWT stops working. This cannot be undone: registering it again makes another team.</p>
      <${T} label=${t`Type <b dir="auto">${e.name}</b> to confirm`} for=${s}>
        <input id=${s} value=${n} autocomplete="off" autofocus dir="auto" onInput=${k(a)} /><//>
      ${c&&t`<${h} tone="bad">${c}<//>`}</div>
    <footer><${l} onClick=${o}>Cancel<//><${l} kind="danger" type="submit" busy=${i} disabled=${n.trim()!==e.name.trim()}>Delete instance<//></footer></form><//>`}var oe={none:["lock","There is no JWT yet. Mnemosyne makes one when it creates the team."],ready:["key-round","A JWT is ready. It can be shown once; copy it into the team's secrets then."],revealed:["eye-off","The JWT was shown and cannot be shown again. Rotate it to get another one."]};function ne({instance:e,onChanged:o}){let[r,s]=p(null);C(()=>{let m=()=>s(null);return addEventListener("pagehide",m),()=>removeEventListener("pagehide",m)},[]),C(()=>s(null),[e.id]);let n=A(null),a=A(r);C(()=>{a.current!==r&&n.current?.focus(),a.current=r},[r]);let i=()=>B({title:"Show the team JWT?",text:"It is shown once. Have the team's secrets file at hand: when you leave this page, it is gone, and only rotating makes another one.",action:"Reveal once",act:async()=>{s(await u($`/pallas/${e.id}/reveal`)),o({...e,jwt:"revealed"})}}),c=()=>B({title:`Rotate the JWT of ${e.name}?`,text:"The old JWT stops working at once. Until the new one is in the team's secrets, its agents cannot reach Mnemosyne.",action:"Rotate team JWT",danger:!0,act:async()=>{s(null),o(await u($`/pallas/${e.id}/rotate`)),g("The JWT was rotated. The new one can be revealed once.")}}),[d,w]=oe[e.jwt]??oe.none;return t`<section class="card" aria-labelledby="token-title" tabindex="-1" ref=${n}>
    <header><h2 id="token-title" class="grow">Team JWT</h2>
      ${e.jwt==="ready"&&!r&&t`<${l} kind="primary" icon="eye" onClick=${i}>Reveal once<//>`}
      ${e.jwt!=="none"&&t`<${l} icon="rotate-ccw" onClick=${c}>Rotate team JWT<//>`}</header>
    ${r?t`<${le} shown=${r} onHide=${()=>s(null)} />`:t`<p class="lead"><${f} name=${d} />${w}</p>`}
  </section>`}var le=({shown:e,onHide:o})=>t`
  <${h} tone="warn" action=${t`<${l} small icon="eye-off" onClick=${o}>Hide<//>`}>Shown once. It is gone when you leave or reload this page.<//>
  <${ae} label="JWT" text=${e.jwt} />
  <${ae} label=${`For ${e.file} of the team`} text=${e.stanza} />`,ae=({label:e,text:o})=>t`<figure class="secret"><figcaption><span class="grow">${e}</span><${_} text=${o} label=${`Copy: ${e}`} /></figcaption>
  <pre tabindex="0" aria-label=${e}><code>${o}</code></pre></figure>`;var U={};function de(e){if(e instanceof q&&e.status===404)return U;throw e}function ce({params:e}){let{id:o}=e,r=E(()=>R($`/pallas/${o}`).catch(de),[o],["instance","health"]),[s,n]=p(null),a=r.data;if(j(a?.name??"Instance"),!a||a!==U&&a.id!==o)return t`<div class="page"><${N} /><${M} loaded=${r} lines=${8} /></div>`;if(a===U)return t`<div class="page"><${N} /><${z} icon="server" whole title="There is no such instance" action=${t`<${l} href="/instances">Pallas instances<//>`}>
      It may have been deleted.<//></div>`;let i=()=>n(null);return t`<div class="page">
    <${N} /><${$e} instance=${a} loaded=${r} open=${n} />
    <${Y} instance=${a} onDone=${r.set} />
    <${ne} instance=${a} onChanged=${r.set} />
    <${X} instance=${a} onChanged=${r.set} />
    <section class="card" aria-labelledby="agents-title"><header><h2 id="agents-title" class="grow">${D(a.agents.length,"agent")}</h2></header>
      ${a.agents.length?t`<${G} agents=${a.agents} full />`:t`<p class="muted">The registry has listed none so far.</p>`}
      <${K} entries=${a.unusable} /></section>
    <${he} instance=${a} onToken=${()=>n("token")} />
    <${pe} id=${o} />
    ${s==="edit"&&t`<${Z} instance=${a} onClose=${i} onDone=${r.set} />`}
    ${s==="token"&&t`<${ee} instance=${a} onClose=${i} onDone=${r.set} />`}
    ${s==="delete"&&t`<${te} instance=${a} onClose=${i} onDone=${()=>O("/instances")} />`}
  </div>`}var N=()=>t`<nav aria-label="Breadcrumb" class="crumbs"><a href="/instances"><${f} name="arrow-left" size=${14} />Pallas instances</a></nav>`;function $e({instance:e,loaded:o,open:r}){let{busy:s,run:n}=v(),a=()=>n(async()=>{let i=await u($`/pallas/${e.id}/refresh`);o.set(i),i.last_fetch_error||g(`The registry lists ${D(i.agents.length,"agent")}.`)},i=>{S(i),o.reload()});return t`<header><div><div class="row wrap"><h1 dir="auto">${e.name}</h1><${V} instance=${e} /></div>
      <p>${me(e.workspace_ids.length)} · registry fetched <${b} at=${e.last_fetched_at} /></p></div>
    <div class="row"><${l} icon="refresh-cw" busy=${s} onClick=${a}>Refresh<//>
      <${F} label="More" actions=${[{label:"Edit",icon:"pencil",act:()=>r("edit")},{label:"Agent token",icon:"key-round",act:()=>r("token")},{label:"Delete",icon:"trash-2",danger:!0,act:()=>r("delete")}]} /></div></header>
    ${o.error&&t`<${h} tone="warn" icon="wifi-off">${o.error}<//>`}
    ${e.last_fetch_error&&t`<${h} tone="warn" icon="wifi-off">The registry could not be read: ${e.last_fetch_error}. The agents are those of the last fetch.<//>`}`}var me=e=>e?`Attached to ${D(e,"workspace")}`:"Not attached to any workspace",he=({instance:e,onToken:o})=>t`<section class="card" aria-labelledby="about-title">
  <header><h2 id="about-title" class="grow">About</h2></header>
  <dl class="pairs">
    <div><dt>Registry</dt><dd class="mono">${e.registry_url}<${_} text=${e.registry_url} label="Copy the URL" /></dd></div>
    <div><dt>Instance and team id</dt><dd class="mono">${e.id}<${_} text=${e.id} label="Copy the id" /></dd></div>
    ${e.namespace&&t`<div><dt>Namespace</dt><dd class="mono">${e.namespace}</dd></div>`}
    <div><dt>Agent token</dt><dd>${e.has_agent_token?"stored, encrypted":"none; agents are called without a bearer of their own"}<${l} small kind="quiet" onClick=${o}>${e.has_agent_token?"Replace":"Set"}<//></dd></div>
    <div><dt>Registered</dt><dd><${b} at=${e.created_at} /></dd></div>
  </dl></section>`;function pe({id:e}){let o=E(()=>R(`/deliveries?instance_id=${encodeURIComponent(e)}`),[e],["instance"]);return t`<section aria-labelledby="waiting-title" class="stack-small"><div class="row"><h2 id="waiting-title" class="grow">Deliveries</h2>
      <a href="/deliveries">All deliveries</a></div>
    ${o.data?o.data.waiting?t`<${P} deliveries=${o.data.deliveries} label="Deliveries of this instance" />`:t`<p class="muted">Nothing waits.</p>`:t`<${M} loaded=${o} />`}</section>`}export{ce as default};
