import{C as y,E as w,J as $,R as b,W as L,X as E,aa as m,d as l,da as k,e as u,g as c,p as r,w as v,x as a,y as p}from"./chunk-2Z5JOXJW.js";function x({query:e}){let[d,f]=l(!1),[s,h]=l(""),o=c(null),n=c(""),g=async t=>{f(!0),h("");try{a.value=await w("/login",t),p.value=!1}catch(i){let S=i instanceof y&&i.retryAfter?` Try again in ${Math.ceil(i.retryAfter)} s.`:"";h($(i)+S),f(!1),requestAnimationFrame(()=>o.current?.select())}};u(()=>{document.title="Log in \xB7 Pallas";let t=()=>{n.current=/^#once=(.+)$/.exec(location.hash)?.[1]??"",n.current&&(history.replaceState(null,"",location.pathname+location.search),g({once:n.current}))};return t(),n.current||o.current?.focus(),addEventListener("hashchange",t),()=>removeEventListener("hashchange",t)},[]),u(()=>{a.value&&b(B(e.get("next")),{replace:!0})},[a.value]);let A=t=>{t.preventDefault(),o.current?.value&&g({password:o.current.value})};return r`<main id="main" class="login">
    <div class="login-card"><img src=${v("logo.svg")} width="44" height="44" alt="" />
      <h1>Log in to Pallas</h1>
      ${d&&n.current&&!s?r`<p class="row muted" role="status"><${L} /> Logging in…</p>`:r`
        ${s?r`<${m} tone="bad">${s}<//>`:p.value&&r`<${m}>Your session has ended. What you were writing to an agent is still there after the login.<//>`}
        <form class="stack" onSubmit=${A}>
          <input class="visually-hidden" type="text" autocomplete="username" value="admin" tabindex="-1" aria-hidden="true" readonly />
          <${k} label="Password" for="password">
            <input id="password" type="password" name="password" autocomplete="current-password" required ref=${o} /><//>
          <${E} kind="primary" type="submit" busy=${d}>Log in<//>
        </form>
        <p class="hint faint">Or open a link that <code>pallas console</code> prints.</p>`}
    </div></main>`}function B(e){return e&&/^\/(?![/\\])/.test(e)&&!e.startsWith("/login")?e:"/"}export{x as default};
