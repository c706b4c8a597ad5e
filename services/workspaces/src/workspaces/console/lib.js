// What every other file needs of the vendored libraries, in one place.
import { h, htm, useEffect } from "./vendor/ui.js";

/** @typedef {import("./vendor/ui.js").ComponentChildren} Children */
/** @typedef {import("./vendor/ui.js").VNode<any>} View */
/** @template T @typedef {import("./vendor/ui.js").Signal<T>} Signal */

/** JSX as a template: html`<p class="x">${text}</p>`, components as html`<${Button} kind="primary" />`. */
export const html = /** @type {(strings: TemplateStringsArray, ...values: unknown[]) => View} */ (htm.bind(h));

export {
  Fragment, batch, computed, effect, render, signal, useComputed, useEffect, useId, useLayoutEffect, useMemo, useRef,
  useSignal, useState,
} from "./vendor/ui.js";

/**
 * The class names that are not empty, joined.
 * @param {...(string | false | null | undefined)} names
 */
export const classes = (...names) => names.filter(Boolean).join(" ");

/** A listener that passes on what its control has. @param {(value: string) => void} take */
export const valueTo = (take) => (/** @type {{target: {value: string}}} */ event) => take(event.target.value);

/** A listener that passes on whether its box is ticked. @param {(checked: boolean) => void} take */
export const checkedTo = (take) => (/** @type {{target: {checked: boolean}}} */ event) => take(event.target.checked);

/** The title of the page, while a view is shown. @param {string} title */
export const useTitle = (title) => useEffect(() => void (document.title = `${title} · Pallas`), [title]);

/** "1 agent", "2,000 agents". @param {number} number @param {string} noun */
export const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** A text as the beginning of a sentence. @param {string} text */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** The address of a file of the console, in the version that this page has. @param {string} name */
export const asset = (name) => new URL(name, import.meta.url).pathname;
