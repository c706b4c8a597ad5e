/**
 * Turns of sub-agents inside the waterfall of the turn that called them: loaded when their row is opened.
 * @import { Bar } from "./tree.js"
 * @import { Signal } from "../../lib.js"
 *
 * @typedef {object} Graft
 * @property {Bar[]} bars with ids of their own, below zero
 * @property {boolean} over nothing will change any more
 */
import { useEffect, useSignal } from "../../lib.js";
import { get, path } from "../../api.js";
import { failed } from "../toast.js";
import { grafted } from "./tree.js";

/** All bars with those that were loaded, and the function that loads those of a row. While a turn runs, they follow it.
 * @param {readonly Bar[]} bars */
export function useGrafts(bars) {
  /** @type {Signal<ReadonlyMap<number, Graft>>} */
  const grafts = useSignal(new Map());
  const all = [...bars, ...[...grafts.value.values()].flatMap((graft) => graft.bars)];
  const load = async (/** @type {Bar} */ bar) => {
    /** @type {import("../../answers").TurnView} */
    const view = await get(path`/turns/${bar.turn_id ?? ""}`);
    const lowest = Math.min(0, ...all.map((each) => each.id));
    const before = grafts.value.get(bar.id)?.bars[0]?.id;
    const made = grafted(view.bars, bar, before === undefined ? lowest : before + 1);
    grafts.value = new Map(grafts.value).set(bar.id, { bars: made, over: view.turn.ended_at !== null });
  };
  useEffect(() => {
    for (const [id, graft] of grafts.peek()) {
      const bar = all.find((each) => each.id === id);
      if (bar && !graft.over) load(bar).catch(() => undefined); // the next change tries again
    }
  }, [bars]);
  return { all, load: (/** @type {Bar} */ bar) => void load(bar).catch(failed) };
}
