// The login: by password, or by the link that can be used once and has its token behind `#once=`.
import { asset, html, useEffect, useRef, useState } from "../lib.js";
import { ApiError, post, sentence } from "../api.js";
import { navigate } from "../router.js";
import { expired, session } from "../state.js";
import { Banner, Button, Field, Spinner } from "../parts/basic.js";

/** @param {{query: URLSearchParams}} props */
export default function Login({ query }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const password = useRef(/** @type {HTMLInputElement | null} */ (null));
  const once = useRef("");

  /** @param {{password: string} | {once: string}} proof */
  const login = async (proof) => {
    setBusy(true);
    setError("");
    try {
      session.value = await post("/login", proof);
      expired.value = false;
    } catch (fault) {
      const wait = fault instanceof ApiError && fault.retryAfter ? ` Try again in ${Math.ceil(fault.retryAfter)} s.` : "";
      setError(sentence(fault) + wait);
      setBusy(false);
      requestAnimationFrame(() => password.current?.select());
    }
  };
  useEffect(() => {
    document.title = "Log in · Pallas";
    const useLink = () => {
      once.current = /^#once=(.+)$/.exec(location.hash)?.[1] ?? "";
      if (!once.current) return;
      history.replaceState(null, "", location.pathname + location.search); // the token stays in no history
      void login({ once: once.current });
    };
    useLink();
    if (!once.current) password.current?.focus();
    addEventListener("hashchange", useLink); // a link that is opened on this page does not load it again
    return () => removeEventListener("hashchange", useLink);
  }, []);
  useEffect(() => {
    if (session.value) navigate(inside(query.get("next")), { replace: true });
  }, [session.value]);

  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (password.current?.value) void login({ password: password.current.value });
  };
  return html`<main id="main" class="login">
    <div class="login-card"><img src=${asset("logo.svg")} width="44" height="44" alt="" />
      <h1>Log in to Pallas</h1>
      ${busy && once.current && !error ? html`<p class="row muted" role="status"><${Spinner} /> Logging in…</p>` : html`
        ${error ? html`<${Banner} tone="bad">${error}<//>` : expired.value && html`<${Banner}>Your session has ended. What you were writing to an agent is still there after the login.<//>`}
        <form class="stack" onSubmit=${submit}>
          <input class="visually-hidden" type="text" autocomplete="username" value="admin" tabindex="-1" aria-hidden="true" readonly />
          <${Field} label="Password" for="password">
            <input id="password" type="password" name="password" autocomplete="current-password" required ref=${password} /><//>
          <${Button} kind="primary" type="submit" busy=${busy}>Log in<//>
        </form>
        <p class="hint faint">Or open a link that <code>pallas console</code> prints.</p>`}
    </div></main>`;
}

/** A path of this console, whatever the address says. It is read as browsers do, which leave out tabs. @param {string | null} next */
export function inside(next) {
  const url = URL.parse(next ?? "/", location.origin);
  return url?.origin === location.origin && !/^\/(\/|login)/.test(url.pathname) ? url.pathname + url.search : "/";
}
