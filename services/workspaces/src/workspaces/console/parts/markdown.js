// Markdown in the page, with buttons that copy code. A long text appears slice by slice, and the page can be used meanwhile.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib.js";
import { copyText } from "./basic.js";
import { Rendering } from "../text/markdown.js";

const BUDGET_MS = 12;

/** What is being rendered, the latest last: it is done first, since it is what is read. @type {(() => boolean)[]} */
const waiting = [];
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/** Call `step` until it returns false, with pauses in which the page reacts. @param {() => boolean} step @returns {() => void} ends it */
function inSteps(step) {
  waiting.push(step);
  timer ??= setTimeout(work);
  return () => {
    const at = waiting.indexOf(step);
    if (at >= 0) waiting.splice(at, 1);
  };
}

function work() {
  const ends = performance.now() + BUDGET_MS;
  try {
    do {
      const step = waiting.pop();
      if (step?.()) waiting.push(step);
    } while (waiting.length && performance.now() < ends);
  } finally {
    timer = waiting.length ? setTimeout(work) : undefined;
  }
}

/**
 * A text of somebody who is not trusted. Its page needs markdown.css. `meanwhile` is shown until all is rendered.
 * @param {{text: string, meanwhile?: string[][]}} props
 */
export function Markdown({ text, meanwhile = [] }) {
  const rendering = useMemo(() => {
    const begun = new Rendering(text);
    begun.step(true);
    return begun;
  }, [text]);
  const [, show] = useState(0);
  useEffect(() => {
    if (!rendering.rest) return undefined;
    return inSteps(() => {
      const more = rendering.step(true);
      show((count) => count + 1);
      return more;
    });
  }, [rendering]);
  return html`<${Blocks} parts=${rendering.rest && meanwhile.length ? meanwhile : rendering.shown()} />`;
}

/**
 * Blocks that are already clean, in groups. A group that is the same, and a block whose HTML is, stays as it is in the page.
 * @param {{parts: string[][]}} props
 */
export const Blocks = ({ parts }) => html`<div class="md" onClick=${copyCode}>${parts.map(viewOf)}</div>`;

/** One view for each group: what has the same view is not even looked at. @type {WeakMap<string[], import("../lib.js").View>} */
const views = new WeakMap();

/** @param {string[]} blocks @param {number} place */
function viewOf(blocks, place) {
  const view = views.get(blocks) ?? html`<${Part} key=${place} blocks=${blocks} />`;
  views.set(blocks, view);
  return view;
}

/** @param {{blocks: string[]}} props */
function Part({ blocks }) {
  const self = useRef(/** @type {HTMLElement | null} */ (null));
  const shown = useRef(/** @type {string[]} */ ([]));
  useLayoutEffect(() => {
    const [element, before] = [/** @type {HTMLElement} */ (self.current), shown.current];
    const other = blocks.findIndex((block, i) => block !== before[i]);
    const same = other < 0 ? blocks.length : other;
    for (let i = same; i < before.length; i++) element.lastElementChild?.remove();
    if (same < blocks.length) element.insertAdjacentHTML("beforeend", blocks.slice(same).map((block) => `<div dir="auto">${block}</div>`).join(""));
    shown.current = blocks;
  }, [blocks]);
  return html`<div class="md-part" ref=${self} />`;
}

/** @param {MouseEvent} event */
function copyCode(event) {
  const button = /** @type {Element} */ (event.target).closest(".copy-code");
  const code = button?.closest(".code")?.querySelector("code");
  if (!button || !code) return;
  const say = (/** @type {string} */ word) => {
    button.textContent = word;
    setTimeout(() => (button.textContent = "Copy"), 1500);
  };
  copyText(code.textContent ?? "").then(() => say("Copied"), () => say("Not copied"));
}
