// Loading what a view shows, loading it again, and work that a person starts.
import { html, useEffect, useMemo, useState } from "../lib.js";
import { ApiError, sentence } from "../api.js";
import { on } from "../events.js";
import { Banner, Button, Skeleton } from "./basic.js";
import { repeated } from "./repeated.js";

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
  const { reload, restart, end } = useMemo(() => repeated(
    load,
    (found) => (set(found), setError("")),
    (fault) => setError(sentence(fault)),
  ), deps);
  useEffect(() => {
    void reload();
    const ends = [...kinds.map((kind) => on(kind, () => void reload())), ...["resync", "resumed"].map((kind) => on(kind, () => void restart()))];
    return () => {
      end();
      for (const each of ends) each();
    };
  }, [reload]);
  return { data, error, reload, set };
}

/**
 * Work that a person starts with `run`: whether it is under way, and the fault of the last one. `failed` gets a fault
 * that is not to be kept.
 */
export function useWork() {
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState(/** @type {ApiError | null} */ (null));
  const keep = (/** @type {unknown} */ error) => setFault(error instanceof ApiError ? error : new ApiError(0, { error: sentence(error) }));
  const run = async (/** @type {() => Promise<unknown>} */ work, /** @type {(error: unknown) => void} */ failed = keep) => {
    setBusy(true);
    setFault(null);
    await work().catch(failed);
    setBusy(false);
  };
  return { busy, fault, error: fault ? sentence(fault) : "", run, clear: () => setFault(null) };
}

/**
 * What to show until `loaded` has data: a skeleton, or the error with a way to try again.
 * @param {{loaded: Loaded<any>, lines?: number}} props
 */
export const Loading = ({ loaded, lines }) =>
  loaded.error
    ? html`<${Banner} tone="bad" action=${html`<${Button} small onClick=${loaded.reload}>Try again<//>`}>${loaded.error}<//>`
    : html`<${Skeleton} lines=${lines ?? 4} />`;
