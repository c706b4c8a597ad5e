// Markdown in the page, with buttons that copy code.
import { html, useMemo } from "../lib.js";
import { blocksOf } from "../text/markdown.js";

/** A text of somebody who is not trusted. Its page needs markdown.css. @param {{text: string}} props */
export const Markdown = ({ text }) => html`<${Blocks} html=${useMemo(() => blocksOf(text), [text])} />`;

/**
 * Blocks that are already clean. A block whose HTML is the same stays as it is in the page.
 * @param {{html: string[]}} props
 */
export const Blocks = ({ html: blocks }) => html`<div class="md" onClick=${copyCode}>${blocks.map((block, i) => html`
  <div key=${i} dir="auto" dangerouslySetInnerHTML=${{ __html: block }} />`)}</div>`;

/** @param {MouseEvent} event */
function copyCode(event) {
  const button = /** @type {Element} */ (event.target).closest(".copy-code");
  const code = button?.closest(".code")?.querySelector("code");
  if (!button || !code) return;
  const say = (/** @type {string} */ word) => {
    button.textContent = word;
    setTimeout(() => (button.textContent = "Copy"), 1500);
  };
  navigator.clipboard.writeText(code.textContent ?? "").then(() => say("Copied"), () => say("Not copied"));
}
