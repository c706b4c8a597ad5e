/**
 * Where two texts differ, word by word. Nothing here knows the page.
 *
 * @typedef {object} Piece `old` is in the first text only, `new` in the second only, `same` in both.
 * @property {"same"|"old"|"new"} in
 * @property {string} text
 */

/** Pairs of words that are compared at most; longer texts are compared by lines. */
const MOST = 4_000_000;

/** @param {string} one @param {string} other @returns {Piece[]} their texts joined are the two texts again */
export function differences(one, other) {
  const [old, now] = [one.match(/\s+|[^\s]+/g) ?? [], other.match(/\s+|[^\s]+/g) ?? []];
  if (old.length * now.length <= MOST) return pieces(old, now);
  const lines = [one.split(/(?<=\n)/), other.split(/(?<=\n)/)];
  const [left, right] = [lines[0] ?? [], lines[1] ?? []];
  return left.length * right.length <= MOST ? pieces(left, right) : joined([{ in: "old", text: one }, { in: "new", text: other }]);
}

/** @param {readonly string[]} old @param {readonly string[]} now */
function pieces(old, now) {
  let begin = 0;
  while (begin < old.length && begin < now.length && old[begin] === now[begin]) begin++;
  let [oldEnd, newEnd] = [old.length, now.length];
  while (oldEnd > begin && newEnd > begin && old[oldEnd - 1] === now[newEnd - 1]) [oldEnd, newEnd] = [oldEnd - 1, newEnd - 1];
  const same = (/** @type {readonly string[]} */ words) => words.map((text) => /** @type {Piece} */ ({ in: "same", text }));
  return joined([...same(old.slice(0, begin)), ...middle(old.slice(begin, oldEnd), now.slice(begin, newEnd)), ...same(old.slice(oldEnd))]);
}

/** The longest common subsequence, from a table of lengths. @param {readonly string[]} old @param {readonly string[]} now @returns {Piece[]} */
function middle(old, now) {
  const width = now.length + 1;
  const lengths = new Uint16Array((old.length + 1) * width);
  const at = (/** @type {number} */ i, /** @type {number} */ j) => lengths[i * width + j] ?? 0;
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = now.length - 1; j >= 0; j--)
      lengths[i * width + j] = old[i] === now[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  /** @type {Piece[]} */
  const found = [];
  for (let i = 0, j = 0; i < old.length || j < now.length; ) {
    if (i < old.length && j < now.length && old[i] === now[j]) found.push({ in: "same", text: old[i++] ?? "" }), j++;
    else if (i < old.length && (j === now.length || at(i + 1, j) >= at(i, j + 1))) found.push({ in: "old", text: old[i++] ?? "" });
    else found.push({ in: "new", text: now[j++] ?? "" });
  }
  return found;
}

/** Neighbours of the same kind as one. @param {readonly Piece[]} found @returns {Piece[]} */
function joined(found) {
  /** @type {Piece[]} */
  const all = [];
  for (const piece of found) {
    const last = all.at(-1);
    if (last?.in === piece.in) last.text += piece.text;
    else if (piece.text) all.push({ ...piece });
  }
  return all;
}
