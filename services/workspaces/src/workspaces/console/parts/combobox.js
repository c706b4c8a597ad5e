// A button that opens a list with a filter. Keyboard and roles as in the ARIA pattern of a combobox with a listbox.
import { html, useEffect, useId, useLayoutEffect, useMemo, useRef, useState, valueTo } from "../lib.js";
import { Icon } from "./basic.js";

/** @typedef {import("../lib.js").Children} Children */
/** @typedef {{value: string, text: string, also?: string}} Option the filter searches `text`, and behind it `also` */

const PAGE = 6;

/**
 * @template {Option} T
 * @param {{label: string, placeholder: string, options: T[], value: string | null, onPick: (option: T) => void,
 *   render: (option: T) => Children, shown: Children}} props `shown` is on the button
 */
export function Combobox({ label, placeholder, options, value, onPick, render, shown }) {
  const [open, setOpen] = useState(false);
  const [filter, setFilter] = useState("");
  const [at, setAt] = useState(0);
  const root = useRef(/** @type {HTMLElement | null} */ (null));
  const id = useId();
  const found = useMemo(() => {
    const words = filter.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    const holds = (/** @type {string} */ text) => words.every((word) => text.toLocaleLowerCase().includes(word));
    const all = options.filter((option) => holds(`${option.text} ${option.also ?? ""}`));
    return [...all.filter((option) => holds(option.text)), ...all.filter((option) => !holds(option.text))];
  }, [options, filter]);
  const active = Math.min(at, found.length - 1);

  useEffect(() => {
    if (!open) return undefined;
    setAt(Math.max(0, options.findIndex((option) => option.value === value)));
    const away = (/** @type {Event} */ event) => {
      if (!root.current?.contains(/** @type {Node} */ (event.target))) setOpen(false);
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [open]);
  // Before the options are painted, so that no key that is pressed then is lost.
  useLayoutEffect(() => {
    if (open) root.current?.querySelector("input")?.focus();
  }, [open]);
  useLayoutEffect(() => {
    if (open) document.getElementById(`${id}-${active}`)?.scrollIntoView({ block: "nearest" });
  }, [open, active]);

  const search = (/** @type {string} */ text) => {
    setFilter(text);
    setAt(0);
  };
  const close = () => {
    setOpen(false);
    setFilter("");
    root.current?.querySelector("button")?.focus();
  };
  const pick = (/** @type {T | undefined} */ option) => {
    if (!option) return;
    close();
    onPick(option);
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return;
    const last = found.length - 1;
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE, PageUp: -PAGE, Home: -last, End: last };
    const step = steps[/** @type {keyof typeof steps} */ (event.key)];
    if (step !== undefined) setAt(Math.max(0, Math.min(last, active + step)));
    else if (event.key === "Enter") pick(found[active]);
    else if (event.key === "Escape") close();
    else {
      if (event.key === "Tab") setOpen(false);
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  const openKeys = (/** @type {KeyboardEvent} */ event) => {
    if (open || (event.key !== "ArrowDown" && event.key !== "ArrowUp")) return;
    event.preventDefault();
    setOpen(true);
  };
  const button = { "aria-haspopup": "listbox", "aria-expanded": open, "aria-controls": open ? `${id}-list` : undefined };
  return html`<div class="combobox" ref=${root}>
    <button type="button" class="combobox-button" aria-label=${label} ...${button}
      onClick=${() => (open ? close() : setOpen(true))} onKeyDown=${openKeys}>
      ${shown}<${Icon} name="chevrons-up-down" size=${14} /></button>
    ${open && html`<div class="combobox-list">
      <div class="search"><${Icon} name="search" />
        <input type="text" role="combobox" aria-expanded="true" aria-controls=${`${id}-list`} aria-autocomplete="list"
          aria-activedescendant=${found.length ? `${id}-${active}` : undefined} aria-label=${placeholder} placeholder=${placeholder}
          autocomplete="off" spellcheck=${false} value=${filter} onInput=${valueTo(search)} onKeyDown=${keys} /></div>
      <div role="listbox" id=${`${id}-list`} aria-label=${label} class="options">${found.map((option, i) => html`
        <div key=${option.value} id=${`${id}-${i}`} class="option" role="option" aria-selected=${i === active}
          aria-current=${option.value === value ? "true" : undefined}
          onPointerMove=${() => i === active || setAt(i)} onClick=${() => pick(option)}>
          ${render(option)}
          ${option.value === value ? html`<${Icon} name="check" class="picked" />` : html`<i class="unpicked" />`}</div>`)}</div>
      ${!found.length && html`<p class="combobox-none" role="status">Nothing matches.</p>`}</div>`}
  </div>`;
}
