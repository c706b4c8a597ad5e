import{a as q}from"./chunk-XSSXOQ3I.js";import"./chunk-PQKMAVAQ.js";import{a as H,b as z,c as F,d as O}from"./chunk-LDRBIHC5.js";import{c as b}from"./chunk-JXSBWO5W.js";import{a as M,b as v,c as B}from"./chunk-WTBMBXQP.js";import{$ as w,C as W,D as u,F as A,G as j,H as $,Q as L,R as f,T as d,Y as m,aa as T,ba as g,ca as I,d as h,e as R,ea as D,fa as J,ha as N,j as _,q as o,s as k,u as E,v as C,y as U}from"./chunk-EVVQDGI2.js";function V({instance:e,onChanged:t}){let{busy:r,run:s}=v(),n=()=>s(async()=>t(await u($`/pallas/${e.id}/check`)),I),{believed:a,drift:i}=e,c=ae(e);return o`<section class="card" aria-labelledby="believed-title">
    <header><div class="grow"><h2 id="believed-title">Mnemosyne</h2>
      <p class="muted">${a?o`Asked <${b} at=${a.at} />`:"Not asked yet"} · last told <${b} at=${e.pushed_at} /></p></div>
      <${d} icon="refresh-cw" busy=${r} onClick=${n}>Ask now<//></header>
    ${i?o`<${m} tone="warn">${i}<//>`:a&&o`<p class="lead ok"><${f} name="circle-check" />${oe(a)}</p>`}
    ${a?.active===null&&o`<p class="muted">Mnemosyne knows no such team.</p>`}
    ${c.length>0&&o`<table class="beliefs"><thead><tr><th scope="col">Workspace</th><th scope="col">Attached here</th><th scope="col">In Mnemosyne</th></tr></thead>
      <tbody>${c.map(l=>o`<tr key=${l.id} class=${l.there!==null&&l.here!==l.there?"differs":""}>
        <th scope="row" dir="auto">${l.name}</th><td><${P} yes=${l.here} /></td><td><${P} yes=${l.there} /></td></tr>`)}</tbody></table>`}
  </section>`}var oe=e=>e.active===!1?"Mnemosyne has retired this team, as it should.":"Mnemosyne believes exactly what is attached here.",P=({yes:e})=>e===null?o`<span class="muted">not known</span>`:o`<span class=${e?"yes":"no"}><${f} name=${e?"check":"x"} size=${14} />${e?"yes":"no"}</span>`;function ae(e){let t=e.believed,r=[...new Set([...e.workspace_ids,...t?.workspace_ids??[]])],s=new Map((U.value??[]).map(n=>[n.id,n.name]));return r.map(n=>({id:n,name:s.get(n)??n,here:e.workspace_ids.includes(n),there:t?t.workspace_ids.includes(n):null}))}function S(e,t){let{busy:r,error:s,fault:n,run:a}=v(),i=c=>{c.preventDefault(),a(()=>e().then(t))};return{busy:r,error:s,field:n?.field??"",run:i}}function Y({instance:e,onClose:t,onDone:r}){let s=_(),[n,a]=h(e.name),[i,c]=h(e.registry_url),l={...n.trim()!==e.name&&{name:n.trim()},...i.trim()!==e.registry_url&&{registry_url:i.trim()}},{busy:x,error:p,field:y,run:te}=S(async()=>r(await A($`/pallas/${e.id}`,l)),t);return o`<${D} title="Edit the instance" onClose=${t}><form onSubmit=${te}>
    <div class="dialog-body">
      <${w} label="Name" for=${`${s}-name`} error=${y==="name"&&p} hint="It stands in front of each of its agents. Mnemosyne keeps the name that the team was made with.">
        <input id=${`${s}-name`} value=${n} required maxlength="200" autofocus dir="auto" onInput=${k(a)} /><//>
      <${w} label="Registry URL" for=${`${s}-url`} error=${y==="registry_url"&&p} hint="For an instance that has moved. It stays the same team, with its JWT and its workspaces.">
        <input id=${`${s}-url`} value=${i} required spellcheck="false" inputmode="url" onInput=${k(c)} /><//>
      ${p&&!["name","registry_url"].includes(y)&&o`<${m} tone="bad">${p}<//>`}</div>
    <footer><${d} onClick=${t}>Cancel<//><${d} kind="primary" type="submit" busy=${x} disabled=${!n.trim()||!i.trim()||!Object.keys(l).length}>Save<//></footer></form><//>`}function G({instance:e,onClose:t,onDone:r}){let s=_(),[n,a]=h(""),i=async y=>{r(await A($`/pallas/${e.id}`,{agent_token:y})),g(y?"The agent token is stored.":"The agent token was removed.")},{busy:c,error:l,run:x}=S(()=>i(n),t),p=S(()=>i(""),t);return o`<${D} title="Agent token" onClose=${t}><form onSubmit=${x}>
    <div class="dialog-body"><${w} label="Token" for=${s} error=${l||p.error}
      hint="The bearer with which this console calls the agents, if their gateway asks for one. It is stored encrypted and never shown again.">
      <input id=${s} type="password" value=${n} required autofocus autocomplete="off" onInput=${k(a)} /><//></div>
    <footer>${e.has_agent_token&&o`<${d} kind="danger" busy=${p.busy} onClick=${p.run}>Remove<//><span class="grow" />`}
      <${d} onClick=${t}>Cancel<//><${d} kind="primary" type="submit" busy=${c} disabled=${!n.trim()}>Store<//></footer></form><//>`}function K({instance:e,onClose:t,onDone:r}){let s=_(),[n,a]=h(""),{busy:i,error:c,run:l}=S(async()=>{await j($`/pallas/${e.id}`),g(`${e.name} was deleted.`),r()},t);return o`<${D} title=${`Delete ${e.name}?`} onClose=${t}><form onSubmit=${l}>
    <div class="dialog-body"><p>Its agents leave all workspaces, its team is retired in Mnemosyne, and its JWT stops working. This cannot be undone: registered anew, it is another team.</p>
      <${w} label=${o`Type <b dir="auto">${e.name}</b> to confirm`} for=${s}>
        <input id=${s} value=${n} autocomplete="off" autofocus dir="auto" onInput=${k(a)} /><//>
      ${c&&o`<${m} tone="bad">${c}<//>`}</div>
    <footer><${d} onClick=${t}>Cancel<//><${d} kind="danger" type="submit" busy=${i} disabled=${n.trim()!==e.name.trim()}>Delete instance<//></footer></form><//>`}var Q={none:["lock","There is no JWT yet. Mnemosyne makes one when it creates the team."],ready:["key-round","A JWT is ready. It can be shown once; copy it into the team's secrets then."],revealed:["eye-off","The JWT was shown and cannot be shown again. Rotate it to get another one."]};function Z({instance:e,onChanged:t}){let[r,s]=h(null);R(()=>{let l=()=>s(null);return addEventListener("pagehide",l),()=>removeEventListener("pagehide",l)},[]),R(()=>s(null),[e.id]);let n=()=>J({title:"Show the team JWT?",text:"It is shown once. Have the team's secrets file at hand: when you leave this page, it is gone, and only rotating makes another one.",action:"Reveal once",act:async()=>{s(await u($`/pallas/${e.id}/reveal`)),t({...e,jwt:"revealed"})}}),a=()=>J({title:`Rotate the JWT of ${e.name}?`,text:"The old JWT stops working at once. Until the new one is in the team's secrets, its agents cannot reach Mnemosyne.",action:"Rotate team JWT",danger:!0,act:async()=>{s(null),t(await u($`/pallas/${e.id}/rotate`)),g("The JWT was rotated. The new one can be revealed once.")}}),[i,c]=Q[e.jwt]??Q.none;return o`<section class="card" aria-labelledby="token-title">
    <header><h2 id="token-title" class="grow">Team JWT</h2>
      ${e.jwt==="ready"&&!r&&o`<${d} kind="primary" icon="eye" onClick=${n}>Reveal once<//>`}
      ${e.jwt!=="none"&&o`<${d} icon="rotate-ccw" onClick=${a}>Rotate team JWT<//>`}</header>
    ${r?o`<${ne} shown=${r} onHide=${()=>s(null)} />`:o`<p class="lead"><${f} name=${i} />${c}</p>`}
  </section>`}var ne=({shown:e,onHide:t})=>o`
  <${m} tone="warn" action=${o`<${d} small icon="eye-off" onClick=${t}>Hide<//>`}>Shown once. It is gone when you leave or reload this page.<//>
  <${X} label="JWT" text=${e.jwt} />
  <${X} label=${`For ${e.file} of the team`} text=${e.stanza} />`,X=({label:e,text:t})=>o`<figure class="secret"><figcaption><span class="grow">${e}</span><${T} text=${t} label=${`Copy: ${e}`} /></figcaption>
  <pre tabindex="0" aria-label=${e}><code>${t}</code></pre></figure>`;function re({params:e}){let{id:t}=e,r=M(()=>W($`/pallas/${t}`),[t],["instance","health"]),[s,n]=h(null),a=r.data;if(E(a?.name??"Instance"),!a||a.id!==t)return o`<div class="page"><${ee} /><${B} loaded=${r} lines=${8} /></div>`;let i=()=>n(null);return o`<div class="page">
    <${ee} /><${se} instance=${a} loaded=${r} open=${n} />
    <${z} instance=${a} onDone=${r.set} />
    <${Z} instance=${a} onChanged=${r.set} />
    <${V} instance=${a} onChanged=${r.set} />
    <section class="card" aria-labelledby="agents-title"><header><h2 id="agents-title" class="grow">${C(a.agents.length,"agent")}</h2></header>
      ${a.agents.length?o`<${F} agents=${a.agents} full />`:o`<p class="muted">The registry has listed none so far.</p>`}
      <${O} entries=${a.unusable} /></section>
    <${ie} instance=${a} onToken=${()=>n("token")} />
    <${le} id=${t} />
    ${s==="edit"&&o`<${Y} instance=${a} onClose=${i} onDone=${r.set} />`}
    ${s==="token"&&o`<${G} instance=${a} onClose=${i} onDone=${r.set} />`}
    ${s==="delete"&&o`<${K} instance=${a} onClose=${i} onDone=${()=>L("/instances")} />`}
  </div>`}var ee=()=>o`<nav aria-label="Breadcrumb" class="crumbs"><a href="/instances"><${f} name="arrow-left" size=${14} />Pallas instances</a></nav>`;function se({instance:e,loaded:t,open:r}){let{busy:s,run:n}=v(),a=()=>n(async()=>{let i=await u($`/pallas/${e.id}/refresh`);t.set(i),i.last_fetch_error||g(`The registry lists ${C(i.agents.length,"agent")}.`)},i=>{I(i),t.reload()});return o`<header><div><div class="row wrap"><h1 dir="auto">${e.name}</h1><${H} instance=${e} /></div>
      <p>Attached to ${C(e.workspace_ids.length,"workspace")} · registry fetched <${b} at=${e.last_fetched_at} /></p></div>
    <div class="row"><${d} icon="refresh-cw" busy=${s} onClick=${a}>Refresh<//>
      <${N} label="More" actions=${[{label:"Edit",icon:"pencil",act:()=>r("edit")},{label:"Agent token",icon:"key-round",act:()=>r("token")},{label:"Delete",icon:"trash-2",danger:!0,act:()=>r("delete")}]} /></div></header>
    ${t.error&&o`<${m} tone="warn" icon="wifi-off">${t.error}<//>`}
    ${e.last_fetch_error&&o`<${m} tone="warn" icon="wifi-off">The registry could not be read: ${e.last_fetch_error}. The agents are those of the last fetch.<//>`}`}var ie=({instance:e,onToken:t})=>o`<section class="card" aria-labelledby="about-title">
  <header><h2 id="about-title" class="grow">About</h2></header>
  <dl class="pairs">
    <div><dt>Registry</dt><dd class="mono">${e.registry_url}<${T} text=${e.registry_url} label="Copy the URL" /></dd></div>
    <div><dt>Instance and team id</dt><dd class="mono">${e.id}<${T} text=${e.id} label="Copy the id" /></dd></div>
    ${e.namespace&&o`<div><dt>Namespace</dt><dd class="mono">${e.namespace}</dd></div>`}
    <div><dt>Agent token</dt><dd>${e.has_agent_token?"stored, encrypted":"none; agents are called without a bearer of their own"}<${d} small kind="quiet" onClick=${t}>${e.has_agent_token?"Replace":"Set"}<//></dd></div>
    <div><dt>Registered</dt><dd><${b} at=${e.created_at} /></dd></div>
  </dl></section>`;function le({id:e}){let t=M(()=>W(`/hooks?instance_id=${encodeURIComponent(e)}&limit=10`),[e],["hooks"]);return o`<section aria-labelledby="runs-title" class="stack-small"><div class="row"><h2 id="runs-title" class="grow">Deliveries</h2>
      <a href=${`/deliveries?instance=${encodeURIComponent(e)}`}>All deliveries</a></div>
    ${t.data?t.data.runs.length?o`<${q} runs=${t.data.runs} label="Deliveries of this instance" />`:o`<p class="muted">Mnemosyne was not told anything about this instance yet.</p>`:o`<${B} loaded=${t} />`}</section>`}export{re as default};
