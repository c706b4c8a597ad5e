// Ctrl+K: the palette is loaded when it is opened for the first time.
import { html, signal, useEffect, useState } from "../lib.js";

const open = signal(false);

/** Open the palette. */
export const openSearch = () => void (open.value = true);

addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
  event.preventDefault();
  open.value = !open.value;
});

/** Where the palette appears, once in the page. */
export function Search() {
  const [View, setView] = useState(/** @type {any} */ (null));
  const wanted = open.value;
  useEffect(() => {
    if (wanted && !View) import("./palette.js").then((module) => setView(() => module.Palette), () => (open.value = false));
  }, [wanted]);
  return wanted && View ? html`<${View} onClose=${() => (open.value = false)} />` : null;
}
