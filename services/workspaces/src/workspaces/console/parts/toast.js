// Short notes at the top, where they cover no button. Failures stay until they are dismissed.
import { html, signal } from "../lib.js";
import { sentence } from "../api.js";
import { Icon, IconButton } from "./basic.js";

const SHOWN_MS = 4_000;

/** @typedef {{id: number, tone: "ok" | "bad", text: string}} Toast */
/** @type {import("../lib.js").Signal<Toast[]>} */
const toasts = signal([]);
let next = 1;

/** @param {string} text @param {"ok" | "bad"} [tone] */
export function toast(text, tone = "ok") {
  const id = next++;
  toasts.value = [...toasts.value.filter((each) => each.text !== text), { id, tone, text }].slice(-4);
  if (tone === "ok") setTimeout(() => dismiss(id), SHOWN_MS);
}

/** Show why something failed. @param {unknown} error */
export const failed = (error) => toast(sentence(error), "bad");

/** @param {number} id */
const dismiss = (id) => (toasts.value = toasts.value.filter((each) => each.id !== id));

/** Where they appear, once in the page. */
export const Toaster = () => html`
  <div class="toaster" role="status" aria-live="polite">${toasts.value.map(({ id, tone, text }) => html`
    <div key=${id} class="toast ${tone}">
      <${Icon} name=${tone === "ok" ? "circle-check" : "circle-alert"} /><span class="grow">${text}</span>
      <${IconButton} icon="x" label="Dismiss" onClick=${() => dismiss(id)} /></div>`)}</div>`;
