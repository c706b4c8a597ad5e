/**
 * The rows of a waterfall: which bars are seen, how deep, and what a collapsed bar hides. Nothing here knows the page.
 *
 * @typedef {"queue"|"attempt"|"journal"|"step"|"model"|"tool"|"agent"|"content"|"cancel"|"outcome"} BarKind
 *
 * @typedef {object} Bar One row, as `GET /turns/{id}` has it. `took_ms` null: it has not ended, or is a moment.
 * @property {number} id
 * @property {number|null} parent
 * @property {BarKind} kind
 * @property {string} what
 * @property {string} note
 * @property {number} after_ms
 * @property {number|null} took_ms
 * @property {number} attempt
 * @property {boolean} failed
 * @property {boolean} taken_over
 * @property {string|null} turn_id
 * @property {number|null} input_tokens
 * @property {number|null} output_tokens
 * @property {number|null} cost_nanos
 * @property {string|null} currency
 *
 * @typedef {object} Row A bar as a row of a tree grid. `hidden` counts the bars below a collapsed one.
 * @property {Bar} bar
 * @property {number} level
 * @property {number} position
 * @property {number} siblings
 * @property {boolean} expandable
 * @property {boolean} expanded
 * @property {number} hidden
 * @property {boolean} hidesFailure
 */

/** Bars without a duration. @type {ReadonlySet<BarKind>} */
export const MOMENTS = new Set(["journal", "content", "cancel", "outcome"]);

/** The bars directly below each bar, in their order. A bar whose parent is missing is a root, below null.
 * @param {readonly Bar[]} bars @returns {Map<number|null, Bar[]>} */
export function children(bars) {
  const known = new Set(bars.map((bar) => bar.id));
  /** @type {Map<number|null, Bar[]>} */
  const below = new Map();
  for (const bar of bars) {
    const parent = bar.parent !== null && known.has(bar.parent) && bar.parent !== bar.id ? bar.parent : null;
    const siblings = below.get(parent);
    if (siblings) siblings.push(bar);
    else below.set(parent, [bar]);
  }
  return below;
}

/** The rows that are seen while the bars in `collapsed` are closed.
 * @param {readonly Bar[]} bars @param {ReadonlySet<number>} collapsed @returns {Row[]} */
export function rowsOf(bars, collapsed) {
  const below = children(bars);
  /** @type {Row[]} */
  const rows = [];
  /** @param {number|null} parent @param {number} level */
  const add = (parent, level) => {
    const siblings = below.get(parent) ?? [];
    siblings.forEach((bar, index) => {
      const expandable = below.has(bar.id) || bar.turn_id !== null; // a turn of its own is loaded when it is opened
      const expanded = below.has(bar.id) && !collapsed.has(bar.id);
      const hidden = expandable && !expanded ? descendants(bar.id, below) : [];
      const hidesFailure = hidden.some((each) => each.failed);
      rows.push({ bar, level, position: index + 1, siblings: siblings.length, expandable, expanded, hidden: hidden.length, hidesFailure });
      if (expanded) add(bar.id, level + 1);
    });
  };
  add(null, 1);
  return rows;
}

/** @param {number} id @param {Map<number|null, Bar[]>} below @returns {Bar[]} */
function descendants(id, below) {
  const direct = below.get(id) ?? [];
  return direct.flatMap((bar) => [bar, ...descendants(bar.id, below)]);
}

/** What to collapse at first, so that a turn with many bars begins with at most about `most` rows: the deepest levels.
 * @param {readonly Bar[]} bars @param {number} [most] @returns {Set<number>} */
export function collapsedAtFirst(bars, most = 150) {
  const rows = rowsOf(bars, new Set());
  if (rows.length <= most) return new Set();
  const deepest = Math.max(...rows.map((row) => row.level));
  for (let level = deepest - 1; level > 1; level--) {
    if (rows.filter((row) => row.level <= level).length <= most) return closedFrom(rows, level);
  }
  return closedFrom(rows, 2);
}

/** @param {Row[]} rows @param {number} level */
const closedFrom = (rows, level) => new Set(rows.filter((row) => row.expandable && row.level >= level).map((row) => row.bar.id));

/** All bars that can be collapsed. @param {readonly Bar[]} bars @returns {Set<number>} */
export const allCollapsed = (bars) => new Set(rowsOf(bars, new Set()).filter((row) => row.expandable).map((row) => row.bar.id));

/** The bars of another turn as bars below `parent`. Its outcome is left out, since the row of `parent` ends there.
 * @param {readonly Bar[]} bars @param {Bar} parent @param {number} below the new ids are smaller than this @returns {Bar[]} */
export function grafted(bars, parent, below) {
  const ids = new Map(bars.map((bar, index) => [bar.id, below - index - 1]));
  return bars.filter((bar) => bar.kind !== "outcome").map((bar) => ({
    ...bar,
    id: ids.get(bar.id) ?? below,
    parent: bar.parent === null ? parent.id : (ids.get(bar.parent) ?? parent.id),
    after_ms: bar.after_ms + parent.after_ms,
  }));
}
