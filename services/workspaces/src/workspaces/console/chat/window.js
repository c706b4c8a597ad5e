// Which of the loaded messages are in the page: at most `MOST`, around what is being read.
import { useRef, useState } from "../lib.js";
import { PAGE } from "./model.js";

/** More than fill a large window, and few enough for a browser that is busy. */
const MOST = 200;

/** @typedef {import("./model.js").Item} Item */

/**
 * @param {import("./model.js").Chat} chat
 * @returns {{shown: Item[], above: boolean, below: boolean, up: () => Promise<void>, down: () => void, toEnd: () => void}}
 *   `above`, `below`: there are more. `up` loads a page of older messages where it has to; its failure is thrown.
 */
export function useWindow(chat) {
  // The last one in the page; "": the end, whatever comes.
  const [last, setLast] = useState("");
  const [count, setCount] = useState(PAGE);
  const busy = useRef(false);
  const items = chat.items.value;
  const at = last ? items.findIndex((item) => item.id === last) : -1;
  const end = at < 0 ? items.length : at + 1;
  const start = Math.max(0, end - count);

  const up = async () => {
    if (busy.current) return;
    busy.current = true;
    try {
      if (start < PAGE) await chat.loadOlder();
    } finally {
      busy.current = false;
    }
    const now = chat.items.peek();
    const size = Math.min(now.length, count + PAGE);
    if (size <= MOST) return setCount(size);
    const bottom = now.findIndex((item) => item.id === (last || now.at(-1)?.id));
    setCount(MOST);
    setLast(now[Math.max(MOST - 1, bottom - (size - MOST))]?.id ?? "");
  };
  const down = () => {
    const next = end + PAGE;
    setLast(next >= items.length ? "" : (items[next - 1]?.id ?? ""));
    setCount(MOST);
  };
  const toEnd = () => {
    setLast("");
    setCount(PAGE);
  };
  return { shown: items.slice(start, end), above: start > 0 || chat.before.value !== null, below: end < items.length, up, down, toEnd };
}
