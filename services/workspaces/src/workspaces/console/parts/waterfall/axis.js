/** The axis of the waterfall and the overview above it. Dragging over either one zooms into what was marked.
 * @import { Bar } from "./tree.js"
 * @import { Range } from "./scale.js"
 * @import { Signal } from "../../lib.js" */
import { classes, html, useSignal } from "../../lib.js";
import { selected, ticks } from "./scale.js";
import { stretches } from "./strip.js";
import { tickText } from "./words.js";

/** Marks a part of the axis with the pointer; `onMarked` gets it.
 * @param {Range} range @param {(range: Range) => void} onMarked */
function useMarking(range, onMarked) {
  /** @type {Signal<{from: number, to: number} | null>} */
  const marked = useSignal(null);
  const share = (/** @type {PointerEvent} */ event) => {
    const box = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  return {
    marked: marked.value,
    handlers: {
      onPointerDown: (/** @type {PointerEvent} */ event) => {
        if (event.button) return;
        /** @type {Element} */ (event.currentTarget).setPointerCapture(event.pointerId);
        marked.value = { from: share(event), to: share(event) };
      },
      onPointerMove: (/** @type {PointerEvent} */ event) => {
        if (marked.value) marked.value = { ...marked.value, to: share(event) };
      },
      onPointerUp: () => {
        const wanted = marked.value && selected(range, marked.value.from, marked.value.to);
        marked.value = null;
        if (wanted) onMarked(wanted);
      },
      onPointerCancel: () => (marked.value = null),
    },
  };
}

/** @param {{from: number, to: number} | null} marked shares of the width */
const mark = (marked) =>
  marked && html`<span class="wf-mark" style=${{ "--x": 100 * Math.min(marked.from, marked.to), "--w": 100 * Math.abs(marked.to - marked.from) }}></span>`;

/** @param {{range: Signal<Range>, onMarked: (range: Range) => void}} props */
export function Axis({ range, onMarked }) {
  const { marked, handlers } = useMarking(range.value, onMarked);
  return html`<div class="wf-axis" role="columnheader" aria-label="Time since the request" ...${handlers}>
    ${ticks(range.value).map(({ at, x }) => html`<span key=${at} class=${classes("wf-tick", x < 3 && "first", x > 96 && "last")} style=${{ "--x": x }}>${tickText(at, range.value.to)}</span>`)}
    ${mark(marked)}
  </div>`;
}

/** The lines of the ticks behind all rows. @param {{range: Signal<Range>}} props */
export const Lines = ({ range }) =>
  html`<div class="wf-lines" aria-hidden="true">${ticks(range.value).map(({ at, x }) => html`<span key=${at} style=${{ "--x": x }}></span>`)}</div>`;

/**
 * @param {object} props
 * @param {readonly Bar[]} props.bars
 * @param {Signal<number>} props.length of the turn so far, in milliseconds
 * @param {Range} props.whole
 * @param {Signal<Range>} props.range
 * @param {(range: Range) => void} props.onMarked
 */
export function Overview({ bars, length, whole, range, onMarked }) {
  const { marked, handlers } = useMarking(whole, onMarked);
  const { from, to } = range.value;
  const zoomed = from > whole.from || to < whole.to;
  return html`<div class="wf-overview" aria-hidden="true" ...${handlers}>
    <svg viewBox=${`0 0 ${whole.to} 10`} preserveAspectRatio="none">
      ${stretches(bars, length.value).map((each) => html`<rect key=${each.from} class=${`k-${each.doing}`} x=${each.from} width=${each.to - each.from} y="0" height="10" />`)}
      ${zoomed && html`<rect class="wf-veil" x="0" width=${from} y="0" height="10" /><rect class="wf-veil" x=${to} width=${whole.to - to} y="0" height="10" />`}
    </svg>
    ${mark(marked)}
  </div>`;
}
