// What all views share: who is logged in, the theme, the list of workspaces.
import { effect, signal } from "./lib.js";

/** @typedef {import("./answers").SessionView} SessionView */
/** @typedef {import("./answers").WorkspaceView} WorkspaceView */
/** @typedef {"auto" | "light" | "dark"} Theme */

/** The login; null: nobody is logged in; undefined: not yet known. @type {import("./lib.js").Signal<SessionView | null | undefined>} */
export const session = signal(undefined);

/** What each request has to say besides the cookie, which browsers send to all ports of this host. Only this origin can read it. */
export const csrf = () => read("csrf") || session.peek()?.csrf || "";

effect(() => void (session.value && keep("csrf", session.value.csrf)));

/** The session is over, and nobody has logged out. */
export const expired = signal(false);

/** The server does not know the session any more. */
export function expire() {
  if (session.peek()) expired.value = true;
  session.value = null;
}

/** All workspaces, by name; null until they are loaded. @type {import("./lib.js").Signal<WorkspaceView[] | null>} */
export const workspaces = signal(null);

const THEMES = /** @type {Theme[]} */ (["auto", "light", "dark"]);

/** @returns {Theme} */
function storedTheme() {
  const stored = /** @type {Theme} */ (read("theme"));
  return THEMES.includes(stored) ? stored : "auto";
}

/** @type {import("./lib.js").Signal<Theme>} */
export const theme = signal(storedTheme());

effect(() => {
  document.documentElement.dataset.theme = theme.value;
  keep("theme", theme.value);
});

// Another tab may change it.
addEventListener("storage", () => (theme.value = storedTheme()));

/** What `keep` kept, or null. @param {string} name */
export function read(name) {
  try {
    return localStorage.getItem(`pallas.${name}`);
  } catch {
    return null; // storage is switched off
  }
}

/** Keep a preference in this browser, for all tabs. @param {string} name @param {string} value */
export function keep(name, value) {
  try {
    localStorage.setItem(`pallas.${name}`, value);
  } catch {
    // storage is full or switched off: the preference ends with the tab
  }
}
