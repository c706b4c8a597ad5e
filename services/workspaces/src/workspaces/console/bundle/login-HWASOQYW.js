import"./chunk-KEK4B245.js";import{c as L,f as b,g as x,l as d,o as E}from"./chunk-6OHBJNTC.js";import{D as y,F as w,K as $,d as c,e as u,g as p,p as r,w as v,x as a,y as m}from"./chunk-VQFA7AQP.js";function S({query:s}){let[t,f]=c(!1),[l,h]=c(""),o=p(null),n=p(""),g=async e=>{f(!0),h("");try{a.value=await w("/login",e),m.value=!1}catch(i){let A=i instanceof y&&i.retryAfter?` Try again in ${Math.ceil(i.retryAfter)} s.`:"";h($(i)+A),f(!1),requestAnimationFrame(()=>o.current?.select())}};u(()=>{document.title="Log in \xB7 Pallas";let e=()=>{n.current=/^#once=(.+)$/.exec(location.hash)?.[1]??"",n.current&&(history.replaceState(null,"",location.pathname+location.search),g({once:n.current}))};return e(),n.current||o.current?.focus(),addEventListener("hashchange",e),()=>removeEventListener("hashchange",e)},[]),u(()=>{a.value&&L(B(s.get("next")),{replace:!0})},[a.value]);let k=e=>{e.preventDefault(),o.current?.value&&g({password:o.current.value})};return r`<main id="main" class="login">
    <div class="login-card"><img src=${v("logo.svg")} width="44" height="44" alt="" />
      <h1>Log in to Pallas</h1>
      ${t&&n.current&&!l?r`<p class="row muted" role="status"><${b} /> Logging in…</p>`:r`
        ${l?r`<${d} tone="bad">${l}<//>`:m.value&&r`<${d}>Your session has ended. What you were writing to an agent is still there after the login.<//>`}
        <form class="stack" onSubmit=${k}>
          <input class="visually-hidden" type="text" autocomplete="username" value="admin" tabindex="-1" aria-hidden="true" readonly />
          <${E} label="Password" for="password">
            <input id="password" type="password" name="password" autocomplete="current-password" required ref=${o} /><//>
          <${x} kind="primary" type="submit" busy=${t}>Log in<//>
        </form>
        <p class="hint faint">Or open a link that <code>pallas console</code> prints.</p>`}
    </div></main>`}function B(s){let t=URL.parse(s??"/",location.origin);return t?.origin===location.origin&&!/^\/(\/|login)/.test(t.pathname)?t.pathname+t.search:"/"}export{S as default,B as inside};
