import{a as P}from"./chunk-F5M72XTI.js";import"./chunk-A4FMRVOP.js";import{a as F,b as H,c as O,d as z,f as D}from"./chunk-7FOXAGZ7.js";import{c as v}from"./chunk-2GIURTQE.js";import{a as J,b as M}from"./chunk-73CRSOR5.js";import{$ as b,A as R,B as g,D as B,E as j,F as h,G as L,O as N,P as y,R as d,W as u,Z as k,_ as T,aa as C,ca as I,d as c,da as W,e as w,fa as q,j as _,q as o,w as E,z as U}from"./chunk-VUHAC7SX.js";function Y({instance:e,onChanged:t}){let[s,r]=c(!1),n=async()=>{r(!0);try{t(await g(h`/pallas/${e.id}/check`))}catch(l){C(l)}r(!1)},{believed:a,drift:i}=e,$=ne(e);return o`<section class="card" aria-labelledby="believed-title">
    <header><div class="grow"><h2 id="believed-title">Mnemosyne</h2>
      <p class="muted">${a?o`Asked <${v} at=${a.at} />`:"Not asked yet"} · last told <${v} at=${e.pushed_at} /></p></div>
      <${d} icon="refresh-cw" busy=${s} onClick=${n}>Ask now<//></header>
    ${i?o`<${u} tone="warn">${i}<//>`:a&&o`<p class="lead ok"><${y} name="circle-check" />${ae(a)}</p>`}
    ${a?.active===null&&o`<p class="muted">Mnemosyne knows no such team.</p>`}
    ${$.length>0&&o`<table class="beliefs"><thead><tr><th scope="col">Workspace</th><th scope="col">Attached here</th><th scope="col">In Mnemosyne</th></tr></thead>
      <tbody>${$.map(l=>o`<tr key=${l.id} class=${l.there!==null&&l.here!==l.there?"differs":""}>
        <th scope="row" dir="auto">${l.name}</th><td><${V} yes=${l.here} /></td><td><${V} yes=${l.there} /></td></tr>`)}</tbody></table>`}
  </section>`}var ae=e=>e.active===!1?"Mnemosyne has retired this team, as it should.":"Mnemosyne believes exactly what is attached here.",V=({yes:e})=>e===null?o`<span class="muted">not known</span>`:o`<span class=${e?"yes":"no"}><${y} name=${e?"check":"x"} size=${14} />${e?"yes":"no"}</span>`;function ne(e){let t=e.believed,s=[...new Set([...e.workspace_ids,...t?.workspace_ids??[]])],r=new Map((E.value??[]).map(n=>[n.id,n.name]));return s.map(n=>({id:n,name:r.get(n)??n,here:e.workspace_ids.includes(n),there:t?t.workspace_ids.includes(n):null}))}function S(e,t){let[s,r]=c(!1),[n,a]=c(""),[i,$]=c("");return{busy:s,error:n,field:i,run:async f=>{f.preventDefault(),r(!0),a("");try{await e(),t()}catch(m){a(L(m)),$(m instanceof U&&m.field||""),r(!1)}}}}var x=e=>e.target.value;function G({instance:e,onClose:t,onDone:s}){let r=_(),[n,a]=c(e.name),[i,$]=c(e.registry_url),l={...n.trim()!==e.name&&{name:n.trim()},...i.trim()!==e.registry_url&&{registry_url:i.trim()}},{busy:f,error:m,field:p,run:oe}=S(async()=>s(await B(h`/pallas/${e.id}`,l)),t);return o`<${I} title="Edit the instance" onClose=${t}><form onSubmit=${oe}>
    <div class="dialog-body">
      <${k} label="Name" for=${`${r}-name`} error=${p==="name"&&m} hint="It stands in front of each of its agents. Mnemosyne keeps the name that the team was made with.">
        <input id=${`${r}-name`} value=${n} required maxlength="200" autofocus dir="auto" onInput=${A=>a(x(A))} /><//>
      <${k} label="Registry URL" for=${`${r}-url`} error=${p==="registry_url"&&m} hint="For an instance that has moved. It stays the same team, with its JWT and its workspaces.">
        <input id=${`${r}-url`} value=${i} required spellcheck="false" inputmode="url" onInput=${A=>$(x(A))} /><//>
      ${m&&!["name","registry_url"].includes(p)&&o`<${u} tone="bad">${m}<//>`}</div>
    <footer><${d} onClick=${t}>Cancel<//><${d} kind="primary" type="submit" busy=${f} disabled=${!n.trim()||!i.trim()||!Object.keys(l).length}>Save<//></footer></form><//>`}function K({instance:e,onClose:t,onDone:s}){let r=_(),[n,a]=c(""),i=async p=>{s(await B(h`/pallas/${e.id}`,{agent_token:p})),b(p?"The agent token is stored.":"The agent token was removed.")},{busy:$,error:l,run:f}=S(()=>i(n),t),m=S(()=>i(""),t);return o`<${I} title="Agent token" onClose=${t}><form onSubmit=${f}>
    <div class="dialog-body"><${k} label="Token" for=${r} error=${l||m.error}
      hint="The bearer with which this console calls the agents, if their gateway asks for one. It is stored encrypted and never shown again.">
      <input id=${r} type="password" value=${n} required autofocus autocomplete="off" onInput=${p=>a(x(p))} /><//></div>
    <footer>${e.has_agent_token&&o`<${d} kind="danger" busy=${m.busy} onClick=${m.run}>Remove<//><span class="grow" />`}
      <${d} onClick=${t}>Cancel<//><${d} kind="primary" type="submit" busy=${$} disabled=${!n.trim()}>Store<//></footer></form><//>`}function Q({instance:e,onClose:t,onDone:s}){let r=_(),[n,a]=c(""),{busy:i,error:$,run:l}=S(async()=>{await j(h`/pallas/${e.id}`),b(`${e.name} was deleted.`),s()},t);return o`<${I} title=${`Delete ${e.name}?`} onClose=${t}><form onSubmit=${l}>
    <div class="dialog-body"><p>Its agents leave all workspaces, its team is retired in Mnemosyne, and its JWT stops working. This cannot be undone: registered anew, it is another team.</p>
      <${k} label=${o`Type <b dir="auto">${e.name}</b> to confirm`} for=${r}>
        <input id=${r} value=${n} autocomplete="off" autofocus dir="auto" onInput=${f=>a(x(f))} /><//>
      ${$&&o`<${u} tone="bad">${$}<//>`}</div>
    <footer><${d} onClick=${t}>Cancel<//><${d} kind="danger" type="submit" busy=${i} disabled=${n.trim()!==e.name.trim()}>Delete instance<//></footer></form><//>`}var X={none:["lock","There is no JWT yet. Mnemosyne makes one when it creates the team."],ready:["key-round","A JWT is ready. It can be shown once; copy it into the team's secrets then."],revealed:["eye-off","The JWT was shown and cannot be shown again. Rotate it to get another one."]};function ee({instance:e,onChanged:t}){let[s,r]=c(null);w(()=>{let l=()=>r(null);return addEventListener("pagehide",l),()=>removeEventListener("pagehide",l)},[]),w(()=>r(null),[e.id]);let n=()=>W({title:"Show the team JWT?",text:"It is shown once. Have the team's secrets file at hand: when you leave this page, it is gone, and only rotating makes another one.",action:"Reveal once",act:async()=>{r(await g(h`/pallas/${e.id}/reveal`)),t({...e,jwt:"revealed"})}}),a=()=>W({title:`Rotate the JWT of ${e.name}?`,text:"The old JWT stops working at once. Until the new one is in the team's secrets, its agents cannot reach Mnemosyne.",action:"Rotate team JWT",danger:!0,act:async()=>{r(null),t(await g(h`/pallas/${e.id}/rotate`)),b("The JWT was rotated. The new one can be revealed once.")}}),[i,$]=X[e.jwt]??X.none;return o`<section class="card" aria-labelledby="token-title">
    <header><h2 id="token-title" class="grow">Team JWT</h2>
      ${e.jwt==="ready"&&!s&&o`<${d} kind="primary" icon="eye" onClick=${n}>Reveal once<//>`}
      ${e.jwt!=="none"&&o`<${d} icon="rotate-ccw" onClick=${a}>Rotate team JWT<//>`}</header>
    ${s?o`<${re} shown=${s} onHide=${()=>r(null)} />`:o`<p class="lead"><${y} name=${i} />${$}</p>`}
  </section>`}var re=({shown:e,onHide:t})=>o`
  <${u} tone="warn" action=${o`<${d} small icon="eye-off" onClick=${t}>Hide<//>`}>Shown once. It is gone when you leave or reload this page.<//>
  <${Z} label="JWT" text=${e.jwt} />
  <${Z} label=${`For ${e.file} of the team`} text=${e.stanza} />`,Z=({label:e,text:t})=>o`<figure class="secret"><figcaption><span class="grow">${e}</span><${T} text=${t} label=${`Copy: ${e}`} /></figcaption>
  <pre tabindex="0" aria-label=${e}><code>${t}</code></pre></figure>`;function se({params:e}){let{id:t}=e,s=J(()=>R(h`/pallas/${t}`),[t],["instance","health"]),[r,n]=c(null),a=s.data;if(w(()=>{document.title=`${a?.name??"Instance"} \xB7 Pallas`},[a?.name]),!a||a.id!==t)return o`<div class="page"><${te} /><${M} loaded=${s} lines=${8} /></div>`;let i=()=>n(null);return o`<div class="page">
    <${te} /><${ie} instance=${a} loaded=${s} open=${n} />
    <${H} instance=${a} onDone=${s.set} />
    <${ee} instance=${a} onChanged=${s.set} />
    <${Y} instance=${a} onChanged=${s.set} />
    <section class="card" aria-labelledby="agents-title"><header><h2 id="agents-title" class="grow">${D(a.agents.length,"agent")}</h2></header>
      ${a.agents.length?o`<${O} agents=${a.agents} full />`:o`<p class="muted">The registry has listed none so far.</p>`}
      <${z} entries=${a.unusable} /></section>
    <${le} instance=${a} onToken=${()=>n("token")} />
    <${de} id=${t} />
    ${r==="edit"&&o`<${G} instance=${a} onClose=${i} onDone=${s.set} />`}
    ${r==="token"&&o`<${K} instance=${a} onClose=${i} onDone=${s.set} />`}
    ${r==="delete"&&o`<${Q} instance=${a} onClose=${i} onDone=${()=>N("/instances")} />`}
  </div>`}var te=()=>o`<nav aria-label="Breadcrumb" class="crumbs"><a href="/instances"><${y} name="arrow-left" size=${14} />Pallas instances</a></nav>`;function ie({instance:e,loaded:t,open:s}){let[r,n]=c(!1),a=async()=>{n(!0);try{let i=await g(h`/pallas/${e.id}/refresh`);t.set(i),i.last_fetch_error||b(`The registry lists ${D(i.agents.length,"agent")}.`)}catch(i){C(i),t.reload()}n(!1)};return o`<header><div><div class="row wrap"><h1 dir="auto">${e.name}</h1><${F} instance=${e} /></div>
      <p>Attached to ${D(e.workspace_ids.length,"workspace")} · registry fetched <${v} at=${e.last_fetched_at} /></p></div>
    <div class="row"><${d} icon="refresh-cw" busy=${r} onClick=${a}>Refresh<//>
      <${q} label="More" actions=${[{label:"Edit",icon:"pencil",act:()=>s("edit")},{label:"Agent token",icon:"key-round",act:()=>s("token")},{label:"Delete",icon:"trash-2",danger:!0,act:()=>s("delete")}]} /></div></header>
    ${t.error&&o`<${u} tone="warn" icon="wifi-off">${t.error}<//>`}
    ${e.last_fetch_error&&o`<${u} tone="warn" icon="wifi-off">The registry could not be read: ${e.last_fetch_error}. The agents are those of the last fetch.<//>`}`}var le=({instance:e,onToken:t})=>o`<section class="card" aria-labelledby="about-title">
  <header><h2 id="about-title" class="grow">About</h2></header>
  <dl class="pairs">
    <div><dt>Registry</dt><dd class="mono">${e.registry_url}<${T} text=${e.registry_url} label="Copy the URL" /></dd></div>
    <div><dt>Instance and team id</dt><dd class="mono">${e.id}<${T} text=${e.id} label="Copy the id" /></dd></div>
    ${e.namespace&&o`<div><dt>Namespace</dt><dd class="mono">${e.namespace}</dd></div>`}
    <div><dt>Agent token</dt><dd>${e.has_agent_token?"stored, encrypted":"none; agents are called without a bearer of their own"}<${d} small kind="quiet" onClick=${t}>${e.has_agent_token?"Replace":"Set"}<//></dd></div>
    <div><dt>Registered</dt><dd><${v} at=${e.created_at} /></dd></div>
  </dl></section>`;function de({id:e}){let t=J(()=>R(`/hooks?instance_id=${encodeURIComponent(e)}&limit=10`),[e],["hooks"]);return o`<section aria-labelledby="runs-title" class="stack-small"><div class="row"><h2 id="runs-title" class="grow">Deliveries</h2>
      <a href=${`/deliveries?instance=${encodeURIComponent(e)}`}>All deliveries</a></div>
    ${t.data?t.data.runs.length?o`<${P} runs=${t.data.runs} label="Deliveries of this instance" />`:o`<p class="muted">Mnemosyne was not told anything about this instance yet.</p>`:o`<${M} loaded=${t} />`}</section>`}export{se as default};
