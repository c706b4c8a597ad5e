import{a as P}from"./chunk-FHD3A57T.js";import{a as U,d as M,e as q,f as x,g as O,h as W,i as z,j as E,l as N}from"./chunk-WMBHC3WX.js";import{c as y,i as D,j as H}from"./chunk-IXANW5B7.js";import"./chunk-I4VHPJU5.js";import"./chunk-PQKMAVAQ.js";import"./chunk-JXSBWO5W.js";import{$ as h,B as v,D as _,H as A,I as u,Q as I,R as B,T as $,Y as S,d as i,ea as F,j as R,q as a,u as T,x as g}from"./chunk-EVVQDGI2.js";function j({view:n,onClose:t}){let r=R(),{turn:o}=n,{models:d,agents:c}=P(),[p,G]=i(o.agent),[f,J]=i(""),[K,w]=i(!1),[l,b]=i(null),m=l?.code==="needs_confirmation",L=async e=>{e.preventDefault(),w(!0);try{let s=await _(A`/turns/${o.id}/again`,{...f&&{model:f},...p!==o.agent&&{agent:p},...m&&{confirmed:!0}});I(`/turns/${encodeURIComponent(o.id)}/compare/${encodeURIComponent(s.turn_id)}`)}catch(s){b(s instanceof v?s:new v(0,{error:u(s)})),w(!1)}},C=e=>s=>{e(s.target.value),b(null)},k=e=>l?.field===e?u(l):null,Q=c.filter(e=>e.team===o.team&&e.agent!==o.agent);return a`<${F} title="Run again" onClose=${t}><form onSubmit=${L}>
    <div class="dialog-body"><p class="muted">The same request becomes a turn of its own. Afterwards both are shown side by side.</p>
      <${h} label="Agent" for=${`${r}-agent`} error=${k("agent")}><select id=${`${r}-agent`} value=${p} onChange=${C(G)}>
        <option value=${o.agent}>${o.agent}</option>${Q.map(e=>a`<option key=${e.agent} value=${e.agent}>${e.agent}</option>`)}</select><//>
      <${h} label="Model" for=${`${r}-model`} error=${k("model")}><select id=${`${r}-model`} value=${f} onChange=${C(J)}>
        <option value="">The agent's own</option>${d.map(e=>a`<option key=${e} value=${e}>${e}</option>`)}</select><//>
      ${l&&!["agent","model"].includes(l.field??"")&&a`<${S} tone=${m?"warn":"bad"}>${u(l)}<//>`}</div>
    <footer><${$} onClick=${t}>Cancel<//><${$} kind=${m?"danger":"primary"} type="submit" busy=${K}>${m?"Run anyway":"Run again"}<//></footer>
  </form><//>`}function V({params:n}){let{data:t,fault:r,again:o}=M(n.id),d=q(t),c=t?`${t.turn.team}/${t.turn.agent}`:"Turn";return T(c),g.value&&!g.value.turns?a`<${D} />`:a`<div class="page wide turn">
    <nav aria-label="Breadcrumb" class="crumbs"><a href="/turns"><${B} name="arrow-left" size=${14} />Turns</a></nav>
    ${t?a`
      <${X} view=${t} />
      <${z} view=${t} />
      <${O} view=${t} />
      <section class="card flush" aria-label="Where the time went">
        <p class="visually-hidden">${U(t.times)}</p><p class="visually-hidden" role="status">${t.turn.state}</p>
        <${N} key=${n.id} bars=${t.bars} total=${t.times.total} running=${!y(t.turn)} now=${d} /></section>
      <${E} view=${t} />`:a`<h1 class="visually-hidden">Turn</h1><${x} fault=${r} again=${o} />`}
  </div>`}function X({view:n}){let[t,r]=i(!1),{turn:o}=n;return a`<header><div><div class="row wrap"><h1><span class="faint">${o.team}/</span>${o.agent}</h1><${H} line=${o} /></div>
      <${W} view=${n} /></div>
    <div class="row wrap">
      ${n.conversation_id&&a`<${$} icon="message-square" href=${`/workspaces/${encodeURIComponent(n.workspace_id??"")}/conversations/${encodeURIComponent(n.conversation_id)}`}>Conversation<//>`}
      <${$} kind="primary" icon="rotate-cw" disabled=${!n.can_replay} title=${n.why_not??void 0} onClick=${()=>r(!0)}>Run again<//>
      ${n.why_not&&y(o)&&a`<p class="why-not">${n.why_not}</p>`}</div></header>
    ${t&&a`<${j} view=${n} onClose=${()=>r(!1)} />`}`}export{V as default};
