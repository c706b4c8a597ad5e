// Paths of the console. Links are plain <a href="/…">; a click on one changes the route without loading the page.
import { signal } from "./lib.js";

/**
 * @typedef {object} RouteDefinition
 * @property {string} path such as "/workspaces/:ws"
 * @property {string} view the name of its file in views
 * @property {string[]} [styles] more style sheets, below /assets
 * @property {string} [section] the entry of the navigation that is marked
 *
 * @typedef {object} Route
 * @property {RouteDefinition} definition
 * @property {Record<string, string>} params of the path
 * @property {URLSearchParams} query
 * @property {string} path
 */

/** The route that is shown; null: there is no such page. @type {import("./lib.js").Signal<Route | null | undefined>} */
export const route = signal(undefined);

/** @type {{pattern: RegExp, names: string[], definition: RouteDefinition}[]} */
let table = [];

/** @param {RouteDefinition[]} definitions */
export function startRouter(definitions) {
  table = definitions.map((definition) => {
    const names = [...definition.path.matchAll(/:(\w+)/g)].map((hit) => /** @type {string} */ (hit[1]));
    return { pattern: new RegExp(`^${definition.path.replace(/:\w+/g, "([^/]+)")}/?$`), names, definition };
  });
  addEventListener("popstate", read);
  document.addEventListener("click", follow);
  read();
}

/**
 * Show another page.
 * @param {string} href path, with query if wanted
 * @param {{replace?: boolean}} [options] replace: the current entry of the history
 */
export function navigate(href, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", href);
  read();
}

function read() {
  const path = location.pathname;
  for (const { pattern, names, definition } of table) {
    const hit = pattern.exec(path);
    if (!hit) continue;
    const params = Object.fromEntries(names.map((name, i) => [name, decode(hit[i + 1] ?? "")]));
    route.value = { definition, params, query: new URLSearchParams(location.search), path };
    return;
  }
  route.value = null;
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @param {MouseEvent} event */
function follow(event) {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = /** @type {Element} */ (event.target).closest?.("a[href]");
  if (!(link instanceof HTMLAnchorElement) || link.target || link.origin !== location.origin || link.download) return;
  if (link.pathname.startsWith("/api/") || link.getAttribute("href")?.startsWith("#")) return;
  event.preventDefault();
  if (link.href !== location.href) navigate(link.pathname + link.search + link.hash);
}
