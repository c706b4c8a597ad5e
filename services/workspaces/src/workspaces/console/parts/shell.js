// The frame of every page: navigation, skip link, the state of the event stream.
import { asset, html, useEffect, useLayoutEffect, useRef, useSignal } from "../lib.js";
import { post } from "../api.js";
import { streamState } from "../events.js";
import { route } from "../router.js";
import { keep, read, session, theme, workspaces } from "../state.js";
import { Icon, IconButton } from "./basic.js";
import { Menu } from "./menu.js";
import { failed } from "./toast.js";

/** Images of drafts, which other people of this computer are not to see: `chat/kept_pictures.js` keeps them. */
function forgetPictures() {
  try {
    indexedDB.deleteDatabase("pallas");
  } catch {
    // the browser keeps nothing for this page
  }
}

/** The pages of operators. */
export const PAGES = [
  { href: "/teams", icon: "users", name: "Teams", section: "teams" },
  { href: "/health", icon: "heart-pulse", name: "Health", section: "health" },
  { href: "/turns", icon: "activity", name: "Turns", section: "turns" },
  { href: "/settings", icon: "settings", name: "Settings", section: "settings" },
];
const THEMES = /** @type {const} */ ([
  ["auto", "monitor", "Like the system"],
  ["light", "sun", "Light"],
  ["dark", "moon", "Dark"],
]);

/** @param {{children?: import("../lib.js").Children}} props */
export function Shell({ children }) {
  const open = useSignal(false);
  const drawer = useRef(/** @type {HTMLElement | null} */ (null));
  const path = route.value?.path;
  const button = useRef(/** @type {HTMLElement | null} */ (null));
  const main = useRef(/** @type {HTMLElement | null} */ (null));
  const before = useRef(path);
  // A new page has the focus, before its own parts take it. The first page leaves it to the browser.
  useLayoutEffect(() => {
    if (before.current === path || !main.current) return;
    before.current = path;
    open.value = main.current.inert = false;
    main.current.focus({ preventScroll: true });
  }, [path]);
  useEffect(() => {
    if (open.value) drawer.current?.querySelector("a")?.focus();
  }, [open.value]);
  const close = () => {
    open.value = false;
    if (button.current) button.current.inert = false; // now, as what is inert takes no focus
    button.current?.querySelector("button")?.focus();
  };
  const keys = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && open.value && close();
  return html`<div class="shell ${open.value ? "drawer-open" : ""}">
    <a class="skip" href="#main">Skip to content</a>
    <header class="topbar" ref=${button} inert=${open.value}>
      <${IconButton} icon="menu" label="Navigation" aria-expanded=${open.value} onClick=${() => (open.value = true)} />
      <${Brand} /><span class="grow" /><${Stream} /></header>
    <div class="scrim" onClick=${close} />
    <nav class="sidebar" aria-label="Main" ref=${drawer} onKeyDown=${keys}>
      <${Brand} /><${Navigation} /><${Footer} /></nav>
    <main id="main" tabindex="-1" ref=${main} inert=${open.value}>${children}</main>
  </div>`;
}

const Brand = () => html`
  <a class="brand" href="/"><img src=${asset("logo.svg")} width="22" height="22" alt="" /><span>Pallas</span></a>`;

/** Where one can go. What operators need is folded away from those who chat, until they want it. */
export function Navigation() {
  const section = route.value?.definition.section;
  const current = route.value?.params.ws;
  const operates = section !== "workspaces" || read("operates") === "yes";
  const fold = (/** @type {{target: HTMLDetailsElement}} */ { target }) => section === "workspaces" && keep("operates", target.open ? "yes" : "no");
  return html`<div class="nav-scroll">
    <ul><${Entry} href="/workspaces" icon="layout-grid" name="Workspaces" active=${section === "workspaces" && !current} /></ul>
    <ul class="nested">${(workspaces.value ?? []).map((each) => html`
      <${Entry} key=${each.id} href=${`/workspaces/${each.id}`} name=${each.name} active=${current === each.id} />`)}</ul>
    <details class="platform" open=${operates} onToggle=${fold}><summary>Platform<${Icon} name="chevron-right" size=${14} /></summary>
    <ul>${PAGES.filter((page) => page.section !== "turns" || session.value?.turns).map((page) => html`
      <${Entry} key=${page.href} ...${page} active=${section === page.section} />`)}</ul></details></div>`;
}

/** @param {{href: string, icon?: string, name: string, active: boolean}} props */
const Entry = ({ href, icon, name, active }) => html`
  <li><a href=${href} aria-current=${active ? "page" : undefined}>
    ${icon && html`<${Icon} name=${icon} />`}<span dir="auto">${name}</span></a></li>`;

export function Footer() {
  const now = THEMES.find(([name]) => name === theme.value) ?? THEMES[0];
  const logout = () => post("/logout").then(() => {
    forgetPictures();
    session.value = null;
  }, failed);
  return html`<div class="nav-foot"><${Stream} />
    <span class="account"><${Icon} name="user" /><span>${session.value?.account}</span></span>
    <${Menu} label=${`Theme: ${now[2]}`} icon=${now[1]} actions=${THEMES.map(([name, icon, label]) => ({
      label, icon, checked: theme.value === name, act: () => (theme.value = name) }))} />
    <${IconButton} icon="log-out" label="Log out" onClick=${logout} /></div>`;
}

export const Stream = () => html`<div class="stream" role="status">${streamState.value === "waiting" && html`
  <span><${Icon} name="wifi-off" size=${14} />Reconnecting…</span>`}</div>`;
