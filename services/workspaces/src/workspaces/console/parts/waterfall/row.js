/** One bar of the waterfall: its name in the tree, and its place on the axis.
 * @import { Row } from "./tree.js"
 * @import { Range } from "./scale.js"
 * @import { Signal } from "../../lib.js" */
import { classes, html } from "../../lib.js";
import { Icon } from "../basic.js";
import { duration } from "../units.js";
import { CONTAINERS, KINDS, iconOf } from "./kinds.js";
import { place } from "./scale.js";
import { spoken } from "./words.js";

/**
 * @param {object} props
 * @param {Row} props.row
 * @param {Signal<Range>} props.range
 * @param {Signal<number>} props.now milliseconds after the request; read only while the bar is open
 * @param {number} props.room percent of the axis that a duration needs
 * @param {boolean} props.focused it is the one that Tab reaches
 * @param {(id: number) => void} props.onToggle
 */
export function WaterfallRow({ row, range, now, room, focused, onToggle }) {
  const { bar } = row;
  const expanded = row.expandable ? String(row.expanded) : undefined;
  return html`<div role="row" class=${classes("wf-row", bar.failed && "failed", row.hidesFailure && "hides-failure")}
    data-bar=${bar.id} aria-level=${row.level} aria-posinset=${row.position} aria-setsize=${row.siblings}
    aria-expanded=${expanded} aria-label=${spoken(bar, KINDS[bar.kind].name)} tabindex=${focused ? 0 : -1}>
    <div role="gridcell" class="wf-name" style=${{ "--level": row.level - 1 }}>
      ${row.expandable
        ? html`<button type="button" class="wf-toggle" tabindex="-1" aria-hidden="true" onClick=${() => onToggle(bar.id)}><${Icon} name="chevron-right" /></button>`
        : html`<span class="wf-toggle"></span>`}
      <span class=${classes("wf-icon", `k-${bar.kind}`, bar.failed && "failed")}><${Icon} name=${iconOf(bar)} /></span>
      <span class="wf-what">${bar.what}</span>
      ${bar.note && html`<span class="wf-note">${bar.note}</span>`}
      ${row.hidden ? html`<span class="wf-hidden">${row.hidden.toLocaleString("en")} more</span>` : null}
    </div>
    <div role="gridcell" class="wf-track"><${Track} bar=${bar} range=${range} now=${now} room=${room} /></div>
  </div>`;
}

/** @param {{bar: import("./tree.js").Bar, range: Signal<Range>, now: Signal<number>, room: number}} props */
function Track({ bar, range, now, room }) {
  const container = CONTAINERS.has(bar.kind);
  const where = place(bar, range.value, bar.took_ms === null ? now.value : 0, !container && !bar.taken_over, room);
  if (!where) return null;
  const at = { "--x": where.x, "--w": where.width };
  const kind = classes(`k-${bar.kind}`, bar.failed && "failed", bar.taken_over && "taken-over");
  if (where.moment) return html`<span class=${classes("wf-moment", kind)} style=${at}></span>`;
  const took = bar.took_ms ?? Math.max(0, now.value - bar.after_ms);
  const shape = classes("wf-bar", kind, where.open && "open", container && "container");
  return html`<span class=${shape} style=${at}></span>
    ${where.label !== "none" && html`<span class=${`wf-label ${where.label} k-${bar.kind}`} style=${at}>${duration(took)}</span>`}`;
}
