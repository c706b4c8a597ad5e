import{$ as E,B as g,D as v,I as y,Q as $,S as w,T as b,Y as L,d as c,e as l,g as u,q as n,w as h,x as a}from"./chunk-EVVQDGI2.js";function S({query:e}){let[p,m]=c(!1),[s,d]=c(""),r=u(null),o=u(""),f=async t=>{m(!0),d("");try{a.value=await v("/login",t)}catch(i){let A=i instanceof g&&i.retryAfter?` Try again in ${Math.ceil(i.retryAfter)} s.`:"";d(y(i)+A),m(!1),requestAnimationFrame(()=>r.current?.select())}};l(()=>{document.title="Log in \xB7 Pallas";let t=()=>{o.current=/^#once=(.+)$/.exec(location.hash)?.[1]??"",o.current&&(history.replaceState(null,"",location.pathname+location.search),f({once:o.current}))};return t(),o.current||r.current?.focus(),addEventListener("hashchange",t),()=>removeEventListener("hashchange",t)},[]),l(()=>{a.value&&$(B(e.get("next")),{replace:!0})},[a.value]);let k=t=>{t.preventDefault(),r.current?.value&&f({password:r.current.value})};return n`<main id="main" class="login">
    <div class="login-card"><img src=${h("logo.svg")} width="44" height="44" alt="" />
      <h1>Log in to Pallas</h1>
      ${p&&o.current&&!s?n`<p class="row muted" role="status"><${w} /> Logging in…</p>`:n`
        ${s&&n`<${L} tone="bad">${s}<//>`}
        <form class="stack" onSubmit=${k}>
          <input class="visually-hidden" type="text" autocomplete="username" value="admin" tabindex="-1" aria-hidden="true" readonly />
          <${E} label="Password" for="password">
            <input id="password" type="password" name="password" autocomplete="current-password" required ref=${r} /><//>
          <${b} kind="primary" type="submit" busy=${p}>Log in<//>
        </form>
        <p class="hint faint">Or open a link that <code>pallas console</code> prints.</p>`}
    </div></main>`}function B(e){return e&&/^\/(?![/\\])/.test(e)&&!e.startsWith("/login")?e:"/"}export{S as default};
