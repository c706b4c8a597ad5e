/**
 * A turn as a waterfall: a tree grid with a time axis. Arrow keys walk and fold, `+`, `-` and `0` zoom, `f` fits a bar.
 * @import { Bar, Row } from "./tree.js"
 * @import { Range } from "./scale.js"
 * @import { Signal } from "../../lib.js"
 */
import { html, useComputed, useEffect, useRef, useSignal } from "../../lib.js";
import { navigate } from "../../router.js";
import { Button } from "../basic.js";
import { Axis, Lines, Overview } from "./axis.js";
import { useGrafts } from "./grafts.js";
import { Inspector } from "./inspector.js";
import { reactionTo } from "./keys.js";
import { WaterfallRow } from "./row.js";
import { endOf, lengthOf, wholeRange, zoomed } from "./scale.js";
import { allCollapsed, collapsedAtFirst, rowsOf } from "./tree.js";

/** Rows that are drawn at once. */
const MOST_ROWS = 300;

/**
 * @param {object} props
 * @param {readonly Bar[]} props.bars those of sub-agents with turns of their own are loaded when they are opened
 * @param {number} props.total milliseconds that the turn took so far, as the server said
 * @param {boolean} props.running
 * @param {Signal<number>} props.now milliseconds after the request; grows while the turn runs
 * @param {number} [props.scale] the axis reaches at least that far, in milliseconds
 * @param {boolean} [props.narrow]
 * @param {string} [props.label]
 */
export function Waterfall({ bars: own, total, running, now, scale = 0, narrow = false, label = "Timeline" }) {
  const { all: bars, load } = useGrafts(own);
  const grid = /** @type {{current: HTMLElement | null}} */ (useRef(null));
  /** @type {Signal<ReadonlySet<number>>} */
  const collapsed = useSignal(collapsedAtFirst(own));
  const zoom = /** @type {Signal<Range | null>} */ (useSignal(null));
  const focused = useSignal(own[0]?.id ?? 0);
  const pointed = /** @type {Signal<number | null>} */ (useSignal(null));
  const most = useSignal(MOST_ROWS);
  const known = useSignal({ own, total, running, scale });
  useEffect(() => void (known.value = { own, total, running, scale }), [own, total, running, scale]);

  const length = useComputed(() => Math.max(lengthOf(known.value.own, known.value.total), known.value.running ? now.value : 0));
  const wholeEnd = useComputed(() => wholeRange(Math.max(length.value, known.value.scale), known.value.running).to);
  const range = useComputed(() => zoom.value ?? { from: 0, to: wholeEnd.value });

  const rows = rowsOf(bars, collapsed.value);
  const shown = rows.slice(0, most.value);
  const reachable = shown.some((row) => row.bar.id === focused.value) ? focused.value : shown[0]?.bar.id;
  const inspected = bars.find((bar) => bar.id === (pointed.value ?? reachable));
  const whole = { from: 0, to: wholeEnd.value };

  const fold = (/** @type {number[]} */ ids, /** @type {boolean} */ close) => {
    const next = new Set(collapsed.value);
    for (const id of ids) close ? next.add(id) : next.delete(id);
    collapsed.value = next;
  };
  const open = (/** @type {number} */ id) => {
    const bar = bars.find((each) => each.id === id);
    fold([id], false);
    if (bar?.turn_id && !bars.some((each) => each.parent === id)) load(bar);
  };
  const toggle = (/** @type {number} */ id) => (rows.find((row) => row.bar.id === id)?.expanded ? fold([id], true) : open(id));
  const show = (/** @type {"in"|"out"|"all"|"bar"} */ how, /** @type {Bar} */ bar) => {
    const end = endOf(bar, now.value);
    if (how === "bar") zoom.value = zoomed({ from: bar.after_ms, to: Math.max(end, bar.after_ms + 1) }, whole, 1.1, (bar.after_ms + end) / 2);
    else zoom.value = how === "all" ? null : zoomed(range.value, whole, how === "in" ? 0.5 : 2, (bar.after_ms + end) / 2);
    if (zoom.value && zoom.value.to - zoom.value.from >= whole.to) zoom.value = null;
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (event.metaKey || event.ctrlKey || event.altKey || reachable === undefined) return;
    const does = reactionTo(event.key, shown, reachable);
    if (!Object.keys(does).length) return;
    const bar = bars.find((each) => each.id === reachable);
    if (does.enter !== undefined && !bar?.turn_id && !rows.find((row) => row.bar === bar)?.expandable) return;
    event.preventDefault();
    if (does.focus !== undefined) focusOn(does.focus);
    if (does.expand !== undefined) open(does.expand);
    if (does.collapse !== undefined) fold([does.collapse], true);
    if (does.expandAll) fold(does.expandAll, false);
    if (does.enter !== undefined) bar?.turn_id ? navigate(`/turns/${encodeURIComponent(bar.turn_id)}`) : toggle(does.enter);
    if (does.zoom && bar) show(does.zoom, bar);
  };
  const focusOn = (/** @type {number} */ id) => {
    focused.value = id;
    /** @type {HTMLElement | null | undefined} */ (grid.current?.querySelector(`[data-bar="${id}"]`))?.focus();
  };
  const mark = (/** @type {Range} */ marked) => (zoom.value = marked);
  const barOf = (/** @type {Event} */ event) => {
    const row = /** @type {Element} */ (event.target).closest?.("[data-bar]");
    return row instanceof HTMLElement ? Number(row.dataset.bar) : null;
  };

  return html`<div class="wf">
    <div class="wf-tools">
      <${Button} small kind="quiet" onClick=${() => (collapsed.value = new Set())} disabled=${!collapsed.value.size}>Expand all<//>
      <${Button} small kind="quiet" onClick=${() => (collapsed.value = allCollapsed(bars))}>Collapse all<//>
      ${zoom.value && html`<${Button} small icon="x" onClick=${() => (zoom.value = null)}>Whole turn<//>`}
      <span class="wf-keys" aria-hidden="true"><kbd>↑↓←→</kbd> walk <kbd>+ −</kbd> zoom <kbd>f</kbd> fit <kbd>0</kbd> all</span>
    </div>
    <${Overview} bars=${own} length=${length} whole=${whole} range=${range} onMarked=${mark} />
    <div class="wf-grid" role="treegrid" aria-label=${label} aria-readonly="true" ref=${grid} onKeyDown=${onKeyDown}
      onFocusIn=${(/** @type {Event} */ event) => (focused.value = barOf(event) ?? focused.value)}
      onPointerOver=${(/** @type {Event} */ event) => (pointed.value = barOf(event))} onPointerLeave=${() => (pointed.value = null)}>
      <div role="row" class="wf-head">
        <div role="columnheader" class="wf-name">Operation</div>
        <${Axis} range=${range} onMarked=${mark} />
      </div>
      <${Lines} range=${range} />
      ${shown.map((row) => html`<${WaterfallRow} key=${row.bar.id} row=${row} range=${range} now=${now} room=${narrow ? 30 : 18} focused=${row.bar.id === reachable} onToggle=${toggle} />`)}
    </div>
    ${rows.length > shown.length && html`<${Button} small class="wf-more" onClick=${() => (most.value += MOST_ROWS)}>Show ${Math.min(MOST_ROWS, rows.length - shown.length)} of ${(rows.length - shown.length).toLocaleString("en")} more rows<//>`}
    <${Inspector} bar=${inspected} length=${length} />
  </div>`;
}
