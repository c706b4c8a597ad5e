/**
 * The keyboard of the waterfall, as the tree grid of the ARIA authoring practices has it, and zooming besides.
 * @import { Row } from "./tree.js"
 *
 * @typedef {object} Reaction What a key does; empty: nothing.
 * @property {number} [focus] the id of the bar that gets the focus
 * @property {number} [expand]
 * @property {number} [collapse]
 * @property {number[]} [expandAll]
 * @property {number} [enter] open what belongs to this bar
 * @property {"in"|"out"|"all"|"bar"} [zoom]
 */

const PAGE = 10;
const ZOOMS = /** @type {const} */ ({ "+": "in", "=": "in", "-": "out", 0: "all", f: "bar" });

/** @param {string} key @param {readonly Row[]} rows @param {number} current id of the focused bar @returns {Reaction} */
export function reactionTo(key, rows, current) {
  const index = rows.findIndex((row) => row.bar.id === current);
  const row = rows[index];
  if (!row) return {};
  const at = (/** @type {number} */ to) => ({ focus: rows[Math.min(Math.max(to, 0), rows.length - 1)]?.bar.id ?? current });
  switch (key) {
    case "ArrowDown": return at(index + 1);
    case "ArrowUp": return at(index - 1);
    case "PageDown": return at(index + PAGE);
    case "PageUp": return at(index - PAGE);
    case "Home": return at(0);
    case "End": return at(rows.length - 1);
    case "ArrowRight":
      if (!row.expandable) return {};
      return row.expanded ? at(index + 1) : { expand: current };
    case "ArrowLeft":
      if (row.expanded) return { collapse: current };
      return row.level > 1 ? at(rows.findLastIndex((each, place) => place < index && each.level < row.level)) : {};
    case "*": return { expandAll: siblingsOf(rows, index) };
    case "Enter": return { enter: current };
    default: return key in ZOOMS ? { zoom: ZOOMS[/** @type {keyof typeof ZOOMS} */ (key)] } : {};
  }
}

/** Ids of the bars beside this one that can be expanded. @param {readonly Row[]} rows @param {number} index */
function siblingsOf(rows, index) {
  const level = rows[index]?.level ?? 1;
  const first = rows.findLastIndex((row, place) => place < index && row.level < level) + 1;
  const after = rows.findIndex((row, place) => place > index && row.level < level);
  const beside = rows.slice(first, after < 0 ? rows.length : after);
  return beside.filter((row) => row.level === level && row.expandable).map((row) => row.bar.id);
}
