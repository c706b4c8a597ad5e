/** The details of the bar under the pointer, else of the focused one, in a line that keeps its place.
 * @import { Bar } from "./tree.js" */
import { classes, html } from "../../lib.js";
import { Icon } from "../basic.js";
import { duration } from "../units.js";
import { KINDS, NAMED, iconOf } from "./kinds.js";
import { cost, tokens } from "./words.js";

/** @param {{bar: Bar | undefined, length: import("../../lib.js").Signal<number>}} props `length` is that of the turn, in milliseconds */
export function Inspector({ bar, length }) {
  if (!bar) return html`<div class="wf-inspector muted">Point at a row, or walk through them with the arrow keys.</div>`;
  const kind = KINDS[bar.kind];
  const share = bar.took_ms !== null && length.value > 0 ? Math.round((100 * bar.took_ms) / length.value) : 0;
  return html`<div class="wf-inspector">
    <span class=${classes("wf-icon", `k-${bar.kind}`, bar.failed && "failed")}><${Icon} name=${iconOf(bar)} /></span>
    <span class="wf-title">${NAMED.has(bar.kind) && html`<b>${kind.name}</b> `}${bar.what}</span>
    <dl>
      <div><dt>at</dt><dd>${duration(bar.after_ms)}</dd></div>
      ${bar.took_ms !== null && html`<div><dt>took</dt><dd>${duration(bar.took_ms)}${share ? html` <span class="muted">${share} %</span>` : null}</dd></div>`}
      ${tokens(bar) && html`<div><dt>tokens</dt><dd>${tokens(bar)}</dd></div>`}
      ${cost(bar) && html`<div><dt>cost</dt><dd>${cost(bar)}</dd></div>`}
      ${bar.attempt > 0 && !["attempt", "queue"].includes(bar.kind) && html`<div><dt>attempt</dt><dd>${bar.attempt}</dd></div>`}
      ${bar.note && html`<div class=${bar.failed ? "failed" : ""}><dt class="hidden">note</dt><dd>${bar.note}</dd></div>`}
      ${bar.taken_over && html`<div><dt class="hidden">note</dt><dd>taken over by a later attempt</dd></div>`}
    </dl>
    ${bar.turn_id && html`<a class="wf-open" href=${`/turns/${encodeURIComponent(bar.turn_id)}`}>Open its turn <${Icon} name="arrow-right" /></a>`}
  </div>`;
}
