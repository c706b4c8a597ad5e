// The start: who is logged in, which page is shown.
import { Fragment, asset, effect, html, render, signal, useEffect, useState } from "./lib.js";
import { ApiError, get, sentence } from "./api.js";
import { startEvents, stopEvents } from "./events.js";
import { navigate, route, startRouter } from "./router.js";
import { session, workspaces } from "./state.js";
import { loadWorkspaces } from "./workspaces.js";
import { Banner, Button, Empty, Skeleton } from "./parts/basic.js";
import { Confirm } from "./parts/dialog.js";
import { Search } from "./parts/search.js";
import { Shell } from "./parts/shell.js";
import { Toaster } from "./parts/toast.js";

const CHAT = {
  view: "workspace",
  section: "workspaces",
  styles: ["chat.css", "markdown.css"],
};

/** @type {import("./router.js").RouteDefinition[]} */
const ROUTES = [
  { path: "/login", view: "login" },
  { path: "/", section: "workspaces", view: "workspaces" },
  { path: "/workspaces", section: "workspaces", view: "workspaces" },
  { path: "/workspaces/:ws", ...CHAT },
  { path: "/workspaces/:ws/conversations/:c", ...CHAT },
  { path: "/workspaces/:ws/settings", section: "workspaces", styles: ["admin.css"], view: "teams" },
  { path: "/teams", section: "teams", styles: ["admin.css"], view: "instances" },
  { path: "/teams/:id", section: "teams", styles: ["admin.css"], view: "instance" },
  { path: "/health", section: "health", styles: ["admin.css"], view: "health" },
  { path: "/settings", section: "settings", styles: ["admin.css"], view: "settings" },
  { path: "/turns", section: "turns", styles: ["admin.css", "turns.css"], view: "turns" },
  { path: "/turns/day", section: "turns", styles: ["admin.css", "turns.css"], view: "day" },
  { path: "/turns/:id", section: "turns", styles: ["admin.css", "turns.css", "markdown.css"], view: "turn" },
  { path: "/turns/:a/compare/:b", section: "turns", styles: ["admin.css", "turns.css", "markdown.css"], view: "compare" },
];

/** Why the session could not be asked for. It is asked for again until there is an answer. */
const unreachable = signal("");
const AGAIN_MS = 2_000;

function App() {
  const shown = route.value;
  if (session.value === undefined)
    return unreachable.value && html`<main class="alone"><${Refused} act=${start} action="Try again">${unreachable.value}<//></main>`;
  if (shown?.path === "/login" || !session.value) return html`<${Page} /><${Toaster} />`;
  return html`<${Fragment}><${Shell}><${Page} /><//><${Confirm} /><${Search} /><${Toaster} /><//>`;
}

/** @param {{act: () => void, action: string, children?: import("./lib.js").Children}} props */
const Refused = ({ act, action, children }) => html`
  <${Banner} tone="bad" action=${html`<${Button} small onClick=${act}>${action}<//>`}>${children}<//>`;

/** The view of the route. The old one stays until the new one is there. */
function Page() {
  const [view, setView] = useState(/** @type {any} */ (null));
  const [error, setError] = useState("");
  const shown = route.value;
  const definition = shown?.definition;
  useEffect(() => {
    if (!definition) return undefined;
    let current = true;
    setError("");
    load(definition).then(
      (module) => current && setView({ View: module.default, name: definition.view }),
      () => current && setError("This page could not be loaded. Pallas may have been updated: load the page again."),
    );
    return () => void (current = false);
  }, [definition?.view]);
  if (error) return html`<div class="page"><${Refused} act=${() => location.reload()} action="Load again">${error}<//></div>`;
  if (!shown)
    return html`<div class="page">
      <${Empty} icon="circle-help" whole title="There is no such page" action=${html`<${Button} href="/workspaces">Workspaces<//>`} /></div>`;
  if (view?.name !== shown.definition.view) return html`<div class="page"><${Skeleton} /></div>`;
  return html`<${view.View} params=${shown.params} query=${shown.query} />`;
}

/** The module of a view, once its style sheets are there. @param {import("./router.js").RouteDefinition} definition */
async function load({ view, styles = [] }) {
  const loading = [import(`./views/${view}.js`), ...styles.map((name) => link(name))];
  return (await Promise.all(loading))[0];
}

/** @type {Map<string, Promise<unknown>>} */
const links = new Map();

/** Have the browser load one more style sheet, once. @param {string} name */
function link(name) {
  const known = links.get(name);
  if (known) return known;
  const loaded = new Promise((resolve, reject) => {
    const element = document.createElement("link");
    document.head.append(Object.assign(element, { rel: "stylesheet", href: asset(name), onload: resolve, onerror: reject }));
  });
  loaded.catch(() => links.delete(name));
  links.set(name, loaded);
  return loaded;
}

let asked = false;
// Whoever is not logged in goes to the login, and afterwards back to where they were.
effect(() => {
  const path = route.value?.path;
  if (session.value === null && path !== "/login") {
    stopEvents();
    navigate(`/login${path && path !== "/" ? `?next=${encodeURIComponent(path)}` : ""}`, { replace: true });
  } else if (session.value && path !== "/login" && !workspaces.peek() && !asked) {
    asked = true;
    startEvents();
    void loadWorkspaces().finally(() => (asked = false));
  }
  if (session.value === null) workspaces.value = null;
});

/** @type {ReturnType<typeof setTimeout> | undefined} */
let again;

async function start() {
  clearTimeout(again);
  try {
    session.value = await get("/session");
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return;
    unreachable.value = sentence(error);
    again = setTimeout(start, AGAIN_MS);
  }
}

startRouter(ROUTES);
void start();
const first = route.peek();
if (first) load(first.definition).catch(() => undefined); // its failure is shown where it is needed
const root = /** @type {HTMLElement} */ (document.getElementById("app"));
root.replaceChildren(); // the sign that was shown meanwhile
render(html`<${App} />`, root);
