// Loading a turn, again and again while it runs, and the clock by which its bars grow meanwhile.
import { html, useEffect, useSignal, useState } from "../../lib.js";
import { ApiError, get, path, sentence } from "../../api.js";
import { Banner, Button, Empty, Skeleton } from "../basic.js";
import { isOver } from "./lines.js";

/** @typedef {import("../../answers").TurnView} TurnView */

const AGAIN_MS = 1_000;
const FRAME_MS = 80;

/**
 * @template T
 * @param {() => Promise<T>} load
 * @param {(data: T) => boolean} over nothing will change any more
 * @param {unknown[]} deps
 */
export function useLive(load, over, deps) {
  const [data, setData] = useState(/** @type {T | null} */ (null));
  const [fault, setFault] = useState(/** @type {unknown} */ (null));
  const [tries, setTries] = useState(0);
  useEffect(() => {
    let ended = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let timer;
    const ask = async () => {
      try {
        const found = await load();
        if (ended) return;
        setData(found);
        setFault(null);
        if (!over(found)) timer = setTimeout(wait, AGAIN_MS);
      } catch (error) {
        if (ended) return;
        setFault(error);
        if (!(error instanceof ApiError && error.status === 404)) timer = setTimeout(wait, AGAIN_MS);
      }
    };
    const wait = () => {
      if (!document.hidden) return void ask();
      document.addEventListener("visibilitychange", () => ended || void ask(), { once: true });
    };
    setData(null);
    void ask();
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [...deps, tries]);
  return { data, fault, again: () => setTries(tries + 1) };
}

/** One turn with its content. @param {string} id */
export const useTurn = (id) =>
  useLive(() => /** @type {Promise<TurnView>} */ (get(path`/turns/${id}` + "?content=true")), (view) => isOver(view.turn), [id]);

/** Milliseconds since the request of a turn, several times a second while it runs. @param {TurnView | null} view */
export function useClock(view) {
  const now = useSignal(0);
  useEffect(() => () => void (now.value = 0), [view?.turn.id]);
  useEffect(() => {
    if (!view) return undefined;
    const base = isOver(view.turn) ? view.times.total : Math.max(view.times.total, now.peek());
    now.value = base;
    if (isOver(view.turn)) return undefined;
    const since = performance.now();
    const timer = setInterval(() => (now.value = base + performance.now() - since), FRAME_MS);
    return () => clearInterval(timer);
  }, [view]);
  return now;
}

/** What to show instead of a turn. @param {{fault: unknown, again: () => void}} props */
export function Missing({ fault, again }) {
  if (!fault) return html`<${Skeleton} lines=${10} />`;
  if (fault instanceof ApiError && fault.status === 404)
    return html`<${Empty} icon="activity" title="The log has no such turn" action=${html`<${Button} href="/turns">All turns<//>`}>Turns are kept for a limited time.<//>`;
  return html`<${Banner} tone="bad" action=${html`<${Button} small onClick=${again}>Try again<//>`}>${sentence(fault)}<//>`;
}
