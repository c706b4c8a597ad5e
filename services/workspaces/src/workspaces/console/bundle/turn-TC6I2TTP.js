import{a as j}from"./chunk-UQFD72Y4.js";import{b as D,c as F,d as M,e as W,f as q,g as x,h as z,j as N}from"./chunk-RQ45YC25.js";import"./chunk-EYC7SDM3.js";import{c as h,i as O,j as H}from"./chunk-SJOO7B5T.js";import{b as U}from"./chunk-7DOS7JLR.js";import"./chunk-MJCP3OBS.js";import"./chunk-D4TYM3FH.js";import{b as P}from"./chunk-HR37JXIA.js";import"./chunk-ARTTMC5D.js";import"./chunk-KEK4B245.js";import{c as A,d as I,g as s,l as S,o as v,v as B}from"./chunk-6OHBJNTC.js";import{F as T,J as R,K as _,d as l,i as b,p as a,r as C,t as k,v as u,x as g}from"./chunk-VQFA7AQP.js";var Y=e=>e.detail>1&&e.preventDefault();function E({view:e,onClose:t}){let r=b(),{turn:n}=e,{models:$,agents:p}=j(),[c,G]=l(n.agent),[d,J]=l(""),{busy:K,fault:i,run:L,clear:Q}=P(),m=i?.code==="needs_confirmation",V=o=>{o.preventDefault(),L(async()=>{let f=await T(R`/turns/${n.id}/again`,{...d&&{model:d},...c!==n.agent&&{agent:c},...m&&{confirmed:!0}});A(`/turns/${encodeURIComponent(n.id)}/compare/${encodeURIComponent(f.turn_id)}`)})},y=o=>C(f=>{o(f),Q()}),w=o=>i?.field===o?_(i):null,X=p.filter(o=>o.team===n.team&&o.agent!==n.agent);return a`<${B} title="Run again" onClose=${t}><form onSubmit=${V}>
    <div class="dialog-body"><p class="muted">The same request becomes a turn of its own. Afterwards both are shown side by side.</p>
      <${v} label="Agent" for=${`${r}-agent`} error=${w("agent")}><select id=${`${r}-agent`} value=${c} onChange=${y(G)}>
        <option value=${n.agent}>${n.agent}</option>${X.map(o=>a`<option key=${o.agent} value=${o.agent}>${o.agent}</option>`)}</select><//>
      <${v} label="Model" for=${`${r}-model`} error=${w("model")}><select id=${`${r}-model`} value=${d} onChange=${y(J)}>
        <option value="">The agent's own</option>${$.map(o=>a`<option key=${o} value=${o}>${o}</option>`)}</select><//>
      ${i&&!["agent","model"].includes(i.field??"")&&a`<${S} tone=${m?"warn":"bad"}>${u(i.message.replace(`turn ${n.id}`,"this turn"))}<//>`}</div>
    <footer><${s} onClick=${t}>Cancel<//><${s} kind=${m?"danger":"primary"} type="submit" busy=${K} autofocus onClick=${Y}>${m?"Run anyway":"Run again"}<//></footer>
  </form><//>`}function Z({params:e}){let{data:t,fault:r,again:n}=D(e.id),$=F(t),p=t?`${t.turn.team}/${t.turn.agent}`:"Turn";return k(p),g.value&&!g.value.turns?a`<${O} />`:a`<div class="page wide turn">
    <nav aria-label="Breadcrumb" class="crumbs"><a href="/turns"><${I} name="arrow-left" size=${14} />Turns</a></nav>
    ${t?a`
      <${tt} view=${t} />
      <${x} view=${t} />
      <${W} view=${t} />
      <section class="card flush" aria-label="Where the time went">
        <p class="visually-hidden">${U(t.times)}</p><p class="visually-hidden" role="status">${t.turn.state}</p>
        <${N} key=${e.id} bars=${t.bars} total=${t.times.total} running=${!h(t.turn)} now=${$} /></section>
      <${z} view=${t} />`:a`<h1 class="visually-hidden">Turn</h1><${M} fault=${r} again=${n} />`}
  </div>`}function tt({view:e}){let[t,r]=l(!1),{turn:n}=e;return a`<header><div><div class="row wrap"><h1><span class="faint">${n.team}/</span>${n.agent}</h1><${H} line=${n} /></div>
      <${q} view=${e} /></div>
    <div class="row wrap turn-actions">
      ${e.conversation_id&&a`<${s} icon="message-square" href=${`/workspaces/${encodeURIComponent(e.workspace_id??"")}/conversations/${encodeURIComponent(e.conversation_id)}`}>Conversation<//>`}
      <${s} kind="primary" icon="rotate-cw" disabled=${!e.can_replay} title=${e.why_not??void 0} onClick=${()=>r(!0)}>Run again<//>
      ${e.why_not&&h(n)&&a`<p class="why-not">${u(e.why_not.replace(`turn ${n.id}`,"this turn"))}.</p>`}</div></header>
    ${t&&a`<${E} view=${e} onClose=${()=>r(!1)} />`}`}export{Z as default};
