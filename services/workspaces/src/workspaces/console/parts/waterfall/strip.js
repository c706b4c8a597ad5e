/**
 * The overview above a waterfall: what a turn was doing at each moment. Where things overlap, the innermost counts.
 * @import { Bar } from "./tree.js"
 *
 * @typedef {"queue"|"model"|"tool"|"agent"|"other"} Doing
 * @typedef {object} Stretch
 * @property {Doing} doing
 * @property {number} from
 * @property {number} to
 */
import { endOf } from "./scale.js";

/** A tool hides the model beside it, and both hide the queue. */
const ORDER = /** @type {const} */ (["tool", "model", "agent", "queue"]);

/** Stretches without gaps from 0 to `length`, in milliseconds; neighbours differ.
 * @param {readonly Bar[]} bars @param {number} length @returns {Stretch[]} */
export function stretches(bars, length) {
  /** @type {{at: number, kind: number, step: 1 | -1}[]} */
  const edges = [];
  for (const bar of bars) {
    const kind = ORDER.findIndex((name) => name === bar.kind);
    if (kind < 0) continue;
    edges.push({ at: Math.max(0, bar.after_ms), kind, step: 1 }, { at: Math.min(length, endOf(bar, length)), kind, step: -1 });
  }
  edges.sort((one, other) => one.at - other.at);
  /** @type {Stretch[]} */
  const found = [];
  const open = ORDER.map(() => 0);
  let since = 0;
  for (const { at, kind, step } of [...edges, { at: length, kind: 0, step: /** @type {1} */ (1) }]) {
    add(found, ORDER[open.findIndex((count) => count > 0)] ?? "other", since, at);
    since = Math.max(since, at);
    open[kind] = (open[kind] ?? 0) + step;
  }
  return found;
}

/** @param {Stretch[]} found @param {Doing} doing @param {number} from @param {number} to */
function add(found, doing, from, to) {
  if (to <= from) return;
  const last = found.at(-1);
  if (last?.doing === doing) last.to = to;
  else found.push({ doing, from, to });
}
