// The smallest parts: icons, buttons, pills, banners, empty states, skeletons, times.
import { asset, classes, html, useEffect, useState } from "../lib.js";

/** @typedef {import("../lib.js").Children} Children */
/** @typedef {"ok" | "warn" | "bad" | "busy" | "idle"} Tone */

const SPRITE = asset("vendor/icons.svg");

/**
 * An icon of vendor/icons.svg. It says nothing to screen readers.
 * @param {{name: string, size?: number, class?: string}} props
 */
export const Icon = ({ name, size = 16, class: extra }) => html`
  <svg class=${classes("icon", extra)} width=${size} height=${size} aria-hidden="true">
    <use href=${`${SPRITE}#${name}`} /></svg>`;

const BROKEN_MS = 60_000; // the service looks for a missing icon again after as long
/** When pictures could not be loaded. Whatever shows one next does not ask for it again at once. @type {Map<string, number>} */
const broken = new Map();

/** Attributes of an `img` with this address; null: there is no such picture. @param {string | null | undefined} src */
export function usePicture(src) {
  const [, setBroken] = useState("");
  if (!src || performance.now() - (broken.get(src) ?? -BROKEN_MS) < BROKEN_MS) return null;
  return { src, onError: () => (broken.set(src, performance.now()), setBroken(src)) };
}

/** @param {{size?: number}} props */
export const Spinner = ({ size = 16 }) => html`
  <svg class="spinner" width=${size} height=${size} viewBox="0 0 16 16" aria-hidden="true">
  <circle class="track" cx="8" cy="8" r="6.5" /><path d="M8 1.5a6.5 6.5 0 0 1 6.5 6.5" /></svg>`;

/**
 * A button; with `href` a link that looks like one. `busy` shows a spinner. Busy or disabled it takes no clicks, but keeps
 * the focus, which browsers take from buttons with the attribute `disabled`.
 * @param {{kind?: "primary" | "plain" | "quiet" | "danger", icon?: string, busy?: boolean, small?: boolean, href?: string,
 *   children?: Children, class?: string, disabled?: boolean, onClick?: (event: any) => unknown} & Record<string, unknown>} props
 */
export function Button({ kind = "plain", icon, busy, small, href, children, class: extra, disabled, onClick, ...rest }) {
  const name = classes("button", kind, small && "small", extra);
  const sign = busy ? html`<${Spinner} />` : icon && html`<${Icon} name=${icon} />`;
  const inside = html`${sign}${children && html`<span>${children}</span>`}`;
  if (href) return html`<a class=${name} href=${href} onClick=${onClick} ...${rest}>${inside}</a>`;
  const state = { "aria-disabled": disabled || busy || undefined, "aria-busy": busy || undefined };
  const click = (/** @type {Event} */ event) => (disabled || busy ? event.preventDefault() : onClick?.(event));
  return html`<button type="button" class=${name} ...${state} ...${rest} onClick=${click}>${inside}</button>`;
}

/**
 * A button with nothing but an icon.
 * @param {{icon: string, label: string, class?: string} & Record<string, unknown>} props
 */
export const IconButton = ({ icon, label, class: extra, ...rest }) => html`
  <button type="button" class=${classes("icon-button", extra)} aria-label=${label} title=${label} ...${rest}>
    <${Icon} name=${icon} /></button>`;

/** A state in one word, with its colour. @param {{tone?: Tone, children?: Children, title?: string, icon?: string}} props */
export const Pill = ({ tone = "idle", children, title, icon }) => html`
  <span class="pill ${tone}" title=${title}>
    ${icon ? html`<${Icon} name=${icon} size=${12} />` : html`<i class="dot" />`}${children}</span>`;

const HEALTH = /** @type {Record<string, {tone: Tone, word: string}>} */ ({
  ok: { tone: "ok", word: "Healthy" }, degraded: { tone: "warn", word: "Degraded" },
  error: { tone: "bad", word: "Unhealthy" }, unknown: { tone: "idle", word: "Not yet checked" },
});

/** The word and colour of a health. @param {import("../answers").HealthView | null | undefined} health */
export const healthOf = (health) => HEALTH[health?.status ?? "unknown"] ?? { tone: "idle", word: "Unknown" };

/**
 * A dot, with the reason as its tooltip. `word`: with the word beside it.
 * @param {{health: import("../answers").HealthView | null | undefined, word?: boolean}} props
 */
export function HealthBadge({ health, word = false }) {
  const { tone, word: text } = healthOf(health);
  const title = health?.message ? `${text}: ${health.message}` : text;
  if (word) return html`<${Pill} tone=${tone} title=${title}>${text}<//>`;
  return html`<span class="health ${tone}" role="img" aria-label=${title} title=${title}><i class="dot" /></span>`;
}

const SIGNS = { ok: "circle-check", warn: "triangle-alert", bad: "circle-alert", busy: "info", idle: "info" };

/**
 * A bar across a view. `tone` bad is announced at once.
 * @param {{tone?: Tone, icon?: string, children?: Children, action?: Children}} props
 */
export const Banner = ({ tone = "idle", icon, children, action }) => html`
  <div class="banner ${tone}" role=${tone === "bad" ? "alert" : "status"}>
    <${Icon} name=${icon ?? SIGNS[tone]} /><div class="grow">${children}</div>${action}</div>`;

/**
 * What to show where there is nothing yet. `whole`: it is all of the page.
 * @param {{icon: string, title: string, whole?: boolean, children?: Children, action?: Children}} props
 */
export const Empty = ({ icon, title, whole = false, children, action }) => html`
  <div class="empty"><span class="empty-icon"><${Icon} name=${icon} size=${20} /></span>
    ${whole ? html`<h1>${title}</h1>` : html`<h2>${title}</h2>`}${children && html`<p>${children}</p>`}${action}</div>`;

/** Grey lines while something loads. @param {{lines?: number}} props */
export const Skeleton = ({ lines = 3 }) => html`
  <div class="skeleton" role="status" aria-label="Loading">${Array.from({ length: lines }, () => html`<i />`)}</div>`;

/**
 * A labelled field of a form. The child is its control, which has the id.
 * @param {{label: string, for: string, hint?: Children, error?: string | null, children?: Children}} props
 */
export const Field = ({ label, for: id, hint, error, children }) => html`
  <div class=${classes("field", error && "bad")}><label for=${id}>${label}</label>${children}
    ${error && html`<p class="fault" id=${`${id}-hint`} role="alert">${error}</p>`}
    ${!error && hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}</div>`;

/** Browsers have no clipboard where the page came by plain HTTP from another machine. @param {string} text */
export async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = Object.assign(document.createElement("textarea"), { value: text });
  const within = document.querySelector("dialog[open]") ?? document.body;
  const before = document.activeElement;
  within.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  if (before instanceof HTMLElement) before.focus();
  if (!copied) throw new Error("not copied");
}

/** Copies a text, and says so for a moment. @param {{text: string, label?: string}} props */
export function Copy({ text, label = "Copy" }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    const timer = copied ? setTimeout(() => setCopied(false), 1500) : undefined;
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = () => copyText(text).then(() => setCopied(true), () => setCopied(false));
  const [icon, says] = copied ? ["check", "Copied"] : ["copy", label];
  return html`<${IconButton} icon=${icon} label=${says} class=${copied ? "done" : ""} onClick=${copy} />`;
}
