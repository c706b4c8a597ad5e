/**
 * Geometry of a waterfall: from milliseconds to fractions of the axis, and the ticks of the axis.
 * @import { Bar } from "./tree.js"
 *
 * @typedef {object} Range The part of the turn that is shown, in milliseconds after the request.
 * @property {number} from
 * @property {number} to
 *
 * @typedef {object} Place Where a bar is drawn: `x` and `width` are percent of the axis.
 * @property {number} x
 * @property {number} width
 * @property {boolean} open It has not ended.
 * @property {boolean} moment It has no duration.
 * @property {"inside"|"after"|"before"|"none"} label Where there is room for its duration.
 */
import { MOMENTS } from "./tree.js";

const NICE = [1, 2, 5];

/** The end of a bar that is drawn: its own, or that of the turn so far. @param {Bar} bar @param {number} now */
export const endOf = (bar, now) => {
  if (bar.took_ms !== null) return bar.after_ms + bar.took_ms;
  return MOMENTS.has(bar.kind) ? bar.after_ms : Math.max(now, bar.after_ms);
};

/** When the last bar ends, or `total` if that is later. @param {readonly Bar[]} bars @param {number} total */
export const lengthOf = (bars, total) => bars.reduce((end, bar) => Math.max(end, endOf(bar, 0)), Math.max(total, 0));

/** The whole axis. That of a running turn has room to grow, so that it is not drawn anew all the time.
 * @param {number} length @param {boolean} running @returns {Range} */
export function wholeRange(length, running) {
  if (!running) return { from: 0, to: Math.max(length, 1) };
  const wanted = Math.max(length * 1.08, 1000);
  const power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((factor) => factor * power >= wanted) ?? 10;
  return { from: 0, to: step * power };
}

/** @param {Bar} bar @param {Range} range @param {number} now @param {boolean} [solid] its duration can be read on it
 * @param {number} [room] what a duration needs, in percent @returns {Place|null} null: it is outside the range */
export function place(bar, range, now, solid = true, room = 18) {
  const span = range.to - range.from;
  const end = endOf(bar, now);
  if (end < range.from || bar.after_ms > range.to || span <= 0) return null;
  const x = (100 * (Math.max(bar.after_ms, range.from) - range.from)) / span;
  const until = (100 * (Math.min(end, range.to) - range.from)) / span;
  const width = Math.max(0, until - x);
  const label = solid && width > room ? "inside" : until <= 100 - room ? "after" : x >= room ? "before" : "none";
  const moment = MOMENTS.has(bar.kind) && bar.took_ms === null;
  return { x, width, open: bar.took_ms === null && !moment, moment, label };
}

/** About `count` ticks at round times. @param {Range} range @param {number} [count] @returns {{at: number, x: number}[]} */
export function ticks(range, count = 6) {
  const span = range.to - range.from;
  const power = 10 ** Math.floor(Math.log10(span / count));
  const step = (NICE.find((factor) => span / (factor * power) <= count) ?? 10) * power;
  const first = Math.ceil(range.from / step - 1e-9) || 0; // never -0
  const last = Math.floor(range.to / step + 1e-9);
  const found = [];
  for (let number = first; number <= last; number++) found.push({ at: number * step, x: (100 * (number * step - range.from)) / span });
  return found;
}

/** The range `factor` times as wide around `center`, within the whole one and never below 1 ms.
 * @param {Range} range @param {Range} whole @param {number} factor @param {number} center @returns {Range} */
export function zoomed(range, whole, factor, center) {
  const span = Math.min(whole.to - whole.from, Math.max(1, (range.to - range.from) * factor));
  const share = (center - range.from) / (range.to - range.from);
  const from = Math.min(Math.max(whole.from, center - share * span), whole.to - span);
  return { from, to: from + span };
}

/** The range between two fractions of the axis in any order; null if they are too close to mean anything.
 * @param {Range} range @param {number} one @param {number} other @returns {Range|null} */
export function selected(range, one, other) {
  const [low, high] = [Math.max(0, Math.min(one, other)), Math.min(1, Math.max(one, other))];
  const span = range.to - range.from;
  if (high - low < 0.01 || span * (high - low) < 1) return null;
  return { from: range.from + low * span, to: range.from + high * span };
}
