import{a as P}from"./chunk-B4VG5YTC.js";import{a as U,d as D,e as M,f as O,g as x,h as W,i as z,j as E,l as N}from"./chunk-V3FHZJ26.js";import{c as y,i as q,j as H}from"./chunk-IT4GH2L3.js";import"./chunk-PMGFXYXC.js";import"./chunk-UBOMOS4M.js";import"./chunk-IA3H2LQF.js";import{D as v,F as _,J as A,K as m,S as I,T as B,V as u,_ as S,ba as h,d as i,ga as F,j as R,q as a,u as T,y as g}from"./chunk-UCKJDYVP.js";var V=e=>e.detail>1&&e.preventDefault();function j({view:e,onClose:t}){let r=R(),{turn:n}=e,{models:c,agents:d}=P(),[p,G]=i(n.agent),[f,J]=i(""),[K,w]=i(!1),[l,b]=i(null),$=l?.code==="needs_confirmation",L=async o=>{o.preventDefault(),w(!0);try{let s=await _(A`/turns/${n.id}/again`,{...f&&{model:f},...p!==n.agent&&{agent:p},...$&&{confirmed:!0}});I(`/turns/${encodeURIComponent(n.id)}/compare/${encodeURIComponent(s.turn_id)}`)}catch(s){b(s instanceof v?s:new v(0,{error:m(s)})),w(!1)}},C=o=>s=>{o(s.target.value),b(null)},k=o=>l?.field===o?m(l):null,Q=d.filter(o=>o.team===n.team&&o.agent!==n.agent);return a`<${F} title="Run again" onClose=${t}><form onSubmit=${L}>
    <div class="dialog-body"><p class="muted">The same request becomes a turn of its own. Afterwards both are shown side by side.</p>
      <${h} label="Agent" for=${`${r}-agent`} error=${k("agent")}><select id=${`${r}-agent`} value=${p} onChange=${C(G)}>
        <option value=${n.agent}>${n.agent}</option>${Q.map(o=>a`<option key=${o.agent} value=${o.agent}>${o.agent}</option>`)}</select><//>
      <${h} label="Model" for=${`${r}-model`} error=${k("model")}><select id=${`${r}-model`} value=${f} onChange=${C(J)}>
        <option value="">The agent's own</option>${c.map(o=>a`<option key=${o} value=${o}>${o}</option>`)}</select><//>
      ${l&&!["agent","model"].includes(l.field??"")&&a`<${S} tone=${$?"warn":"bad"}>${m(l).replace(n.id,"").replace("  "," ")}<//>`}</div>
    <footer><${u} onClick=${t}>Cancel<//><${u} kind=${$?"danger":"primary"} type="submit" busy=${K} autofocus onClick=${V}>${$?"Run anyway":"Run again"}<//></footer>
  </form><//>`}function X({params:e}){let{data:t,fault:r,again:n}=D(e.id),c=M(t),d=t?`${t.turn.team}/${t.turn.agent}`:"Turn";return T(d),g.value&&!g.value.turns?a`<${q} />`:a`<div class="page wide turn">
    <nav aria-label="Breadcrumb" class="crumbs"><a href="/turns"><${B} name="arrow-left" size=${14} />Turns</a></nav>
    ${t?a`
      <${Y} view=${t} />
      <${z} view=${t} />
      <${x} view=${t} />
      <section class="card flush" aria-label="Where the time went">
        <p class="visually-hidden">${U(t.times)}</p><p class="visually-hidden" role="status">${t.turn.state}</p>
        <${N} key=${e.id} bars=${t.bars} total=${t.times.total} running=${!y(t.turn)} now=${c} /></section>
      <${E} view=${t} />`:a`<h1 class="visually-hidden">Turn</h1><${O} fault=${r} again=${n} />`}
  </div>`}function Y({view:e}){let[t,r]=i(!1),{turn:n}=e;return a`<header><div><div class="row wrap"><h1><span class="faint">${n.team}/</span>${n.agent}</h1><${H} line=${n} /></div>
      <${W} view=${e} /></div>
    <div class="row wrap">
      ${e.conversation_id&&a`<${u} icon="message-square" href=${`/workspaces/${encodeURIComponent(e.workspace_id??"")}/conversations/${encodeURIComponent(e.conversation_id)}`}>Conversation<//>`}
      <${u} kind="primary" icon="rotate-cw" disabled=${!e.can_replay} title=${e.why_not??void 0} onClick=${()=>r(!0)}>Run again<//>
      ${e.why_not&&y(n)&&a`<p class="why-not">${e.why_not}</p>`}</div></header>
    ${t&&a`<${j} view=${e} onClose=${()=>r(!1)} />`}`}export{X as default};
