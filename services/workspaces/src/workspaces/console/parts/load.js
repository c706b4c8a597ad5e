// Loading what a view shows, and loading it again.
import { html, useCallback, useEffect, useRef, useState } from "../lib.js";
import { sentence } from "../api.js";
import { on } from "../events.js";
import { Banner, Button, Skeleton } from "./basic.js";

/**
 * @template T
 * @typedef {{data: T | null, error: string, reload: () => Promise<void>, set: (data: T) => void}} Loaded
 */

/**
 * Load something now, again when `deps` change, when one of the events `kinds` arrives, and after the stream was away.
 * @template T
 * @param {() => Promise<T>} load
 * @param {unknown[]} deps
 * @param {string[]} [kinds]
 * @returns {Loaded<T>}
 */
export function useLoaded(load, deps, kinds = []) {
  const [data, set] = useState(/** @type {T | null} */ (null));
  const [error, setError] = useState("");
  const turn = useRef(0);
  const reload = useCallback(async () => {
    const mine = ++turn.current;
    try {
      const found = await load();
      if (mine !== turn.current) return;
      set(found);
      setError("");
    } catch (fault) {
      if (mine === turn.current) setError(sentence(fault));
    }
  }, deps);
  useEffect(() => {
    void reload();
    const ends = [...kinds, "resync", "resumed"].map((kind) => on(kind, () => void reload()));
    return () => {
      turn.current++;
      for (const end of ends) end();
    };
  }, [reload]);
  return { data, error, reload, set };
}

/**
 * What to show until `loaded` has data: a skeleton, or the error with a way to try again.
 * @param {{loaded: Loaded<any>, lines?: number}} props
 */
export const Loading = ({ loaded, lines }) =>
  loaded.error
    ? html`<${Banner} tone="bad" action=${html`<${Button} small onClick=${loaded.reload}>Try again<//>`}>${loaded.error}<//>`
    : html`<${Skeleton} lines=${lines ?? 4} />`;
