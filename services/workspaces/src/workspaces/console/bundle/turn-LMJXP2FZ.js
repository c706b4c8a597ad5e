import{a as j}from"./chunk-P2SSEFCY.js";import{a as D,d as M,e as O,f as q,g as W,h as z,i as E,j as H,l as P}from"./chunk-S47B4LRL.js";import{c as y,i as x,j as N}from"./chunk-DT37TMEU.js";import"./chunk-VUZJ7U7T.js";import"./chunk-IYF6OVTY.js";import"./chunk-FLSGGS5J.js";import{$ as F,C as v,E as A,I,J as m,R as B,U as S,W as u,ca as h,d as s,ha as U,i as R,p as r,t as T,v as _,x as g}from"./chunk-ZLFHRIET.js";var X=e=>e.detail>1&&e.preventDefault();function G({view:e,onClose:t}){let a=R(),{turn:n}=e,{models:c,agents:d}=j(),[p,J]=s(n.agent),[f,K]=s(""),[L,w]=s(!1),[l,b]=s(null),$=l?.code==="needs_confirmation",Q=async o=>{o.preventDefault(),w(!0);try{let i=await A(I`/turns/${n.id}/again`,{...f&&{model:f},...p!==n.agent&&{agent:p},...$&&{confirmed:!0}});B(`/turns/${encodeURIComponent(n.id)}/compare/${encodeURIComponent(i.turn_id)}`)}catch(i){b(i instanceof v?i:new v(0,{error:m(i)})),w(!1)}},C=o=>i=>{o(i.target.value),b(null)},k=o=>l?.field===o?m(l):null,V=d.filter(o=>o.team===n.team&&o.agent!==n.agent);return r`<${U} title="Run again" onClose=${t}><form onSubmit=${Q}>
    <div class="dialog-body"><p class="muted">The same request becomes a turn of its own. Afterwards both are shown side by side.</p>
      <${h} label="Agent" for=${`${a}-agent`} error=${k("agent")}><select id=${`${a}-agent`} value=${p} onChange=${C(J)}>
        <option value=${n.agent}>${n.agent}</option>${V.map(o=>r`<option key=${o.agent} value=${o.agent}>${o.agent}</option>`)}</select><//>
      <${h} label="Model" for=${`${a}-model`} error=${k("model")}><select id=${`${a}-model`} value=${f} onChange=${C(K)}>
        <option value="">The agent's own</option>${c.map(o=>r`<option key=${o} value=${o}>${o}</option>`)}</select><//>
      ${l&&!["agent","model"].includes(l.field??"")&&r`<${F} tone=${$?"warn":"bad"}>${m(l).replace(`turn ${n.id}`,"this turn")}<//>`}</div>
    <footer><${u} onClick=${t}>Cancel<//><${u} kind=${$?"danger":"primary"} type="submit" busy=${L} autofocus onClick=${X}>${$?"Run anyway":"Run again"}<//></footer>
  </form><//>`}function Y({params:e}){let{data:t,fault:a,again:n}=M(e.id),c=O(t),d=t?`${t.turn.team}/${t.turn.agent}`:"Turn";return T(d),g.value&&!g.value.turns?r`<${x} />`:r`<div class="page wide turn">
    <nav aria-label="Breadcrumb" class="crumbs"><a href="/turns"><${S} name="arrow-left" size=${14} />Turns</a></nav>
    ${t?r`
      <${Z} view=${t} />
      <${E} view=${t} />
      <${W} view=${t} />
      <section class="card flush" aria-label="Where the time went">
        <p class="visually-hidden">${D(t.times)}</p><p class="visually-hidden" role="status">${t.turn.state}</p>
        <${P} key=${e.id} bars=${t.bars} total=${t.times.total} running=${!y(t.turn)} now=${c} /></section>
      <${H} view=${t} />`:r`<h1 class="visually-hidden">Turn</h1><${q} fault=${a} again=${n} />`}
  </div>`}function Z({view:e}){let[t,a]=s(!1),{turn:n}=e;return r`<header><div><div class="row wrap"><h1><span class="faint">${n.team}/</span>${n.agent}</h1><${N} line=${n} /></div>
      <${z} view=${e} /></div>
    <div class="row wrap turn-actions">
      ${e.conversation_id&&r`<${u} icon="message-square" href=${`/workspaces/${encodeURIComponent(e.workspace_id??"")}/conversations/${encodeURIComponent(e.conversation_id)}`}>Conversation<//>`}
      <${u} kind="primary" icon="rotate-cw" disabled=${!e.can_replay} title=${e.why_not??void 0} onClick=${()=>a(!0)}>Run again<//>
      ${e.why_not&&y(n)&&r`<p class="why-not">${_(e.why_not.replace(`turn ${n.id}`,"this turn"))}.</p>`}</div></header>
    ${t&&r`<${G} view=${e} onClose=${()=>a(!1)} />`}`}export{Y as default};
