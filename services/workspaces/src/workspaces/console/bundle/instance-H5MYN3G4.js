import{a as P}from"./chunk-SKG77I26.js";import{a as V,b as Y,c as G,d as K}from"./chunk-OAZP6LY6.js";import"./chunk-D4TYM3FH.js";import{a as E,b as w,c as N}from"./chunk-HR37JXIA.js";import{a as y}from"./chunk-ARTTMC5D.js";import"./chunk-KEK4B245.js";import{c as z,d as f,g as l,l as h,m as F,o as T,q as _,r as g,s as x,v as A,w as B,y as M}from"./chunk-6OHBJNTC.js";import{D as H,E as R,F as u,H as J,I as O,J as $,d as p,e as C,g as W,i as I,p as t,r as k,t as j,u as S,z as q}from"./chunk-VQFA7AQP.js";function X({instance:e,onChanged:o}){let{busy:n,run:s}=w(),r=()=>s(async()=>o(await u($`/pallas/${e.id}/check`)),x),{believed:a,drift:i}=e,c=ie(e);return t`<section class="card" aria-labelledby="believed-title">
    <header><div class="grow"><h2 id="believed-title">Libraries</h2>
      <p class="muted">${a?t`Asked <${y} at=${a.at} />`:"Not asked yet"} · ${e.pushed_at?t`last told <${y} at=${e.pushed_at} />`:"no workspaces told yet"}</p></div>
      <${l} icon="refresh-cw" busy=${n} onClick=${r}>Ask now<//></header>
    ${a?.error&&t`<${h} tone="warn">Since then it could not be compared: ${a.error}.<//>`}
    ${i?t`<${h} tone="warn">${i}<//>`:a&&!a.error&&t`<p class="lead ok"><${f} name="circle-check" />${se(a)}</p>`}
    ${a?.active===null&&t`<p class="muted">They know no such team.</p>`}
    ${c.length>0&&t`<table class="beliefs"><thead><tr><th scope="col">Workspace</th><th scope="col">Attached here</th><th scope="col">Read from libraries</th></tr></thead>
      <tbody>${c.map(d=>t`<tr key=${d.id} class=${d.there!==null&&d.here!==d.there?"differs":""}>
        <th scope="row" dir="auto">${d.name}</th><td><${Q} yes=${d.here} /></td><td><${Q} yes=${d.there} /></td></tr>`)}</tbody></table>`}
  </section>`}var se=e=>e.active===!1?"The libraries have retired this team, as they should.":"The team reads exactly the libraries of the workspaces it is attached to.",Q=({yes:e})=>e===null?t`<span class="muted">not known</span>`:t`<span class=${e?"yes":"no"}><${f} name=${e?"check":"x"} size=${14} />${e?"yes":"no"}</span>`;function ie(e){let o=e.believed,n=[...new Set([...e.workspace_ids,...o?.workspace_ids??[]])],s=new Map((q.value??[]).map(r=>[r.id,r.name]));return n.map(r=>({id:r,name:s.get(r)??r,here:e.workspace_ids.includes(r),there:o?o.workspace_ids.includes(r):null}))}function D(e,o){let{busy:n,error:s,fault:r,run:a}=w(),i=c=>{c.preventDefault(),a(()=>e().then(o))};return{busy:n,error:s,field:r?.field??"",run:i}}function Z({instance:e,onClose:o,onDone:n}){let s=I(),[r,a]=p(e.name),[i,c]=p(e.registry_url),d={...r.trim()!==e.name&&{name:r.trim()},...i.trim()!==e.registry_url&&{registry_url:i.trim()}},{busy:v,error:m,field:b,run:ne}=D(async()=>n(await J($`/pallas/${e.id}`,d)),o);return t`<${A} title="Edit the team" onClose=${o}><form onSubmit=${ne}>
    <div class="dialog-body">
      <${T} label="Name" for=${`${s}-name`} error=${b==="name"&&m} hint="It stands in front of each of its agents.">
        <input id=${`${s}-name`} value=${r} required maxlength="200" autofocus dir="auto" onInput=${k(a)} /><//>
      <${T} label="Registry URL" for=${`${s}-url`} error=${b==="registry_url"&&m} hint="For a team that has moved. It stays the same team, with its JWT and its workspaces.">
        <input id=${`${s}-url`} value=${i} required spellcheck="false" inputmode="url" onInput=${k(c)} /><//>
      ${m&&!["name","registry_url"].includes(b)&&t`<${h} tone="bad">${m}<//>`}</div>
    <footer><${l} onClick=${o}>Cancel<//><${l} kind="primary" type="submit" busy=${v} disabled=${!r.trim()||!i.trim()||!Object.keys(d).length}>Save<//></footer></form><//>`}function ee({instance:e,onClose:o,onDone:n}){let s=I(),[r,a]=p(""),i=async b=>{n(await J($`/pallas/${e.id}`,{agent_token:b})),g(b?"The agent token is stored.":"The agent token was removed.")},{busy:c,error:d,run:v}=D(()=>i(r),o),m=D(()=>i(""),o);return t`<${A} title="Agent token" onClose=${o}><form onSubmit=${v}>
    <div class="dialog-body"><${T} label="Token" for=${s} error=${d||m.error}
      hint="The bearer with which this console calls the agents, if their gateway asks for one. It is stored encrypted and never shown again.">
      <input id=${s} type="password" value=${r} required autofocus autocomplete="off" onInput=${k(a)} /><//></div>
    <footer>${e.has_agent_token&&t`<${l} kind="danger" busy=${m.busy} onClick=${m.run}>Remove<//><span class="grow" />`}
      <${l} onClick=${o}>Cancel<//><${l} kind="primary" type="submit" busy=${c} disabled=${!r.trim()}>Store<//></footer></form><//>`}function te({instance:e,onClose:o,onDone:n}){let s=I(),[r,a]=p(""),{busy:i,error:c,run:d}=D(async()=>{await O($`/pallas/${e.id}`),g(`${e.name} was deleted.`),n()},o);return t`<${A} title=${`Delete ${e.name}?`} onClose=${o}><form onSubmit=${d}>
    <div class="dialog-body"><p>Its agents leave all workspaces, it reads no library any more, and its JWT stops working. This cannot be undone: adding it again makes another team.</p>
      <${T} label=${t`Type <b dir="auto">${e.name}</b> to confirm`} for=${s}>
        <input id=${s} value=${r} autocomplete="off" autofocus dir="auto" onInput=${k(a)} /><//>
      ${c&&t`<${h} tone="bad">${c}<//>`}</div>
    <footer><${l} onClick=${o}>Cancel<//><${l} kind="danger" type="submit" busy=${i} disabled=${r.trim()!==e.name.trim()}>Delete team<//></footer></form><//>`}var oe={none:["lock","There is no JWT yet. The libraries make one when they get to know the team."],ready:["key-round","A JWT is ready. It can be shown once; copy it into the team's secrets then."],revealed:["eye-off","The JWT was shown and cannot be shown again. Rotate it to get another one."]};function re({instance:e,onChanged:o}){let[n,s]=p(null);C(()=>{let m=()=>s(null);return addEventListener("pagehide",m),()=>removeEventListener("pagehide",m)},[]),C(()=>s(null),[e.id]);let r=W(null),a=W(n);C(()=>{a.current!==n&&r.current?.focus(),a.current=n},[n]);let i=()=>B({title:"Show the team JWT?",text:"It is shown once. Have the team's secrets file at hand: when you leave this page, it is gone, and only rotating makes another one.",action:"Reveal once",act:async()=>{s(await u($`/pallas/${e.id}/reveal`)),o({...e,jwt:"revealed"})}}),c=()=>B({title:`Rotate the JWT of ${e.name}?`,text:"The old JWT stops working at once. Until the new one is in the team's secrets, its agents cannot read libraries.",action:"Rotate team JWT",danger:!0,act:async()=>{s(null),o(await u($`/pallas/${e.id}/rotate`)),g("The JWT was rotated. The new one can be revealed once.")}}),[d,v]=oe[e.jwt]??oe.none;return t`<section class="card" aria-labelledby="token-title" tabindex="-1" ref=${r}>
    <header><h2 id="token-title" class="grow">Team JWT</h2>
      ${e.jwt==="ready"&&!n&&t`<${l} kind="primary" icon="eye" onClick=${i}>Reveal once<//>`}
      ${e.jwt!=="none"&&t`<${l} icon="rotate-ccw" onClick=${c}>Rotate team JWT<//>`}</header>
    ${n?t`<${le} shown=${n} onHide=${()=>s(null)} />`:t`<p class="lead"><${f} name=${d} />${v}</p>`}
  </section>`}var le=({shown:e,onHide:o})=>t`
  <${h} tone="warn" action=${t`<${l} small icon="eye-off" onClick=${o}>Hide<//>`}>Shown once. It is gone when you leave or reload this page.<//>
  <${ae} label="JWT" text=${e.jwt} />
  <${ae} label=${`For ${e.file} of the team`} text=${e.stanza} />`,ae=({label:e,text:o})=>t`<figure class="secret"><figcaption><span class="grow">${e}</span><${_} text=${o} label=${`Copy: ${e}`} /></figcaption>
  <pre tabindex="0" aria-label=${e}><code>${o}</code></pre></figure>`;var U={};function de(e){if(e instanceof H&&e.status===404)return U;throw e}function ce({params:e}){let{id:o}=e,n=E(()=>R($`/pallas/${o}`).catch(de),[o],["instance","health"]),[s,r]=p(null),a=n.data;if(j(a?.name??"Team"),!a||a!==U&&a.id!==o)return t`<div class="page"><${L} /><${N} loaded=${n} lines=${8} /></div>`;if(a===U)return t`<div class="page"><${L} /><${F} icon="server" whole title="There is no such team" action=${t`<${l} href="/teams">Teams<//>`}>
      It may have been deleted.<//></div>`;let i=()=>r(null);return t`<div class="page">
    <${L} /><${$e} instance=${a} loaded=${n} open=${r} />
    <${Y} instance=${a} onDone=${n.set} />
    <${re} instance=${a} onChanged=${n.set} />
    <${X} instance=${a} onChanged=${n.set} />
    <section class="card" aria-labelledby="agents-title"><header><h2 id="agents-title" class="grow">${S(a.agents.length,"agent")}</h2></header>
      ${a.agents.length?t`<${G} agents=${a.agents} full />`:t`<p class="muted">It has listed none so far.</p>`}
      <${K} entries=${a.unusable} /></section>
    <${he} instance=${a} onToken=${()=>r("token")} />
    <${pe} id=${o} />
    ${s==="edit"&&t`<${Z} instance=${a} onClose=${i} onDone=${n.set} />`}
    ${s==="token"&&t`<${ee} instance=${a} onClose=${i} onDone=${n.set} />`}
    ${s==="delete"&&t`<${te} instance=${a} onClose=${i} onDone=${()=>z("/teams")} />`}
  </div>`}var L=()=>t`<nav aria-label="Breadcrumb" class="crumbs"><a href="/teams"><${f} name="arrow-left" size=${14} />Teams</a></nav>`;function $e({instance:e,loaded:o,open:n}){let{busy:s,run:r}=w(),a=()=>r(async()=>{let i=await u($`/pallas/${e.id}/refresh`);o.set(i),i.last_fetch_error||g(`There are ${S(i.agents.length,"agent")}.`)},i=>{x(i),o.reload()});return t`<header><div><div class="row wrap"><h1 dir="auto">${e.name}</h1><${V} instance=${e} /></div>
      <p>${me(e.workspace_ids.length)} · agents read <${y} at=${e.last_fetched_at} /></p></div>
    <div class="row"><${l} icon="refresh-cw" busy=${s} onClick=${a}>Refresh<//>
      <${M} label="More" actions=${[{label:"Edit",icon:"pencil",act:()=>n("edit")},{label:"Agent token",icon:"key-round",act:()=>n("token")},{label:"Delete",icon:"trash-2",danger:!0,act:()=>n("delete")}]} /></div></header>
    ${o.error&&t`<${h} tone="warn" icon="wifi-off">${o.error}<//>`}
    ${e.last_fetch_error&&t`<${h} tone="warn" icon="wifi-off">Its agents could not be read: ${e.last_fetch_error}. Those shown were read before.<//>`}`}var me=e=>e?`Attached to ${S(e,"workspace")}`:"Not attached to any workspace",he=({instance:e,onToken:o})=>t`<section class="card" aria-labelledby="about-title">
  <header><h2 id="about-title" class="grow">About</h2></header>
  <dl class="pairs">
    <div><dt>Address</dt><dd class="mono">${e.registry_url}<${_} text=${e.registry_url} label="Copy the URL" /></dd></div>
    <div><dt>Team id</dt><dd class="mono">${e.id}<${_} text=${e.id} label="Copy the id" /></dd></div>
    ${e.namespace&&t`<div><dt>Namespace</dt><dd class="mono">${e.namespace}</dd></div>`}
    <div><dt>Agent token</dt><dd>${e.has_agent_token?"stored, encrypted":"none; agents are called without a bearer of their own"}<${l} small kind="quiet" onClick=${o}>${e.has_agent_token?"Replace":"Set"}<//></dd></div>
    <div><dt>Added</dt><dd><${y} at=${e.created_at} /></dd></div>
  </dl></section>`;function pe({id:e}){let o=E(()=>R(`/deliveries?instance_id=${encodeURIComponent(e)}`),[e],["instance"]);return t`<section aria-labelledby="waiting-title" class="stack-small"><div class="row"><h2 id="waiting-title" class="grow">Sync with the libraries</h2></div>
    ${o.data?o.data.waiting?t`<${P} deliveries=${o.data.deliveries} label="Changes to sync" />`:t`<p class="muted">In sync: nothing waits.</p>`:t`<${N} loaded=${o} />`}</section>`}export{ce as default};
