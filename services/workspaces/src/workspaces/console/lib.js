// What every other file needs of the vendored libraries, in one place.
import { h } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

/** @typedef {import("./vendor/preact.js").ComponentChildren} Children */
/** @typedef {import("./vendor/preact.js").VNode<any>} View */
/** @template T @typedef {import("./vendor/signals.js").Signal<T>} Signal */

/** JSX as a template: html`<p class="x">${text}</p>`, components as html`<${Button} kind="primary" />`. */
export const html = /** @type {(strings: TemplateStringsArray, ...values: unknown[]) => View} */ (htm.bind(h));

export { render, Fragment } from "./vendor/preact.js";
export { useCallback, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
export { batch, computed, effect, signal, untracked, useComputed, useSignal, useSignalEffect } from "./vendor/signals.js";

/**
 * The class names that are not empty, joined.
 * @param {...(string | false | null | undefined)} names
 */
export const classes = (...names) => names.filter(Boolean).join(" ");

/** The address of a file of the console, in the version that this page has. @param {string} name */
export const asset = (name) => new URL(name, import.meta.url).pathname;
