// A button that opens a list with a filter. Keyboard and roles as in the ARIA pattern of a combobox with a listbox.
import { html, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "../lib.js";
import { Icon } from "./basic.js";

/** @typedef {{value: string, text: string, disabled?: boolean}} Option `text` is what the filter searches */

/**
 * @template {Option} T
 * @param {{label: string, placeholder: string, options: T[], value: string | null, onPick: (option: T) => void, disabled?: boolean,
 *   up?: boolean, render: (option: T) => import("../lib.js").Children, shown: import("../lib.js").Children, none?: import("../lib.js").Children}} props
 *   `shown` is on the button, `none` is said when there are no options at all
 */
export function Combobox({ label, placeholder, options, value, onPick, disabled = false, up = false, render, shown, none }) {
  const [open, setOpen] = useState(false);
  const [filter, setFilter] = useState("");
  const [at, setAt] = useState(0);
  const root = useRef(/** @type {HTMLElement | null} */ (null));
  const id = useId();
  const found = useMemo(() => {
    const words = filter.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    return options.filter((option) => words.every((word) => option.text.toLocaleLowerCase().includes(word)));
  }, [options, filter]);
  const active = Math.min(at, found.length - 1);

  useEffect(() => {
    if (!open) return undefined;
    setAt(Math.max(0, options.findIndex((option) => option.value === value)));
    root.current?.querySelector("input")?.focus();
    const away = (/** @type {Event} */ event) => root.current?.contains(/** @type {Node} */ (event.target)) || setOpen(false);
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [open]);
  useLayoutEffect(() => void (open && document.getElementById(`${id}-${active}`)?.scrollIntoView({ block: "nearest" })), [open, active]);

  const close = () => {
    setOpen(false);
    setFilter("");
    root.current?.querySelector("button")?.focus();
  };
  const pick = (/** @type {T | undefined} */ option) => {
    if (!option || option.disabled) return;
    close();
    onPick(option);
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.isComposing) return;
    const to = { ArrowDown: active + 1, ArrowUp: active - 1, Home: 0, End: found.length - 1, PageDown: active + 6, PageUp: active - 6 }[event.key];
    if (to !== undefined) setAt(Math.max(0, Math.min(found.length - 1, to)));
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
  return html`<div class="combobox" ref=${root}>
    <button type="button" class="combobox-button" disabled=${disabled} aria-haspopup="listbox" aria-expanded=${open} aria-label=${label} aria-controls=${open ? `${id}-list` : undefined}
      onClick=${() => (open ? close() : setOpen(true))} onKeyDown=${openKeys}>${shown}<${Icon} name="chevrons-up-down" size=${14} /></button>
    ${open && html`<div class="combobox-list ${up ? "up" : "down"}">
      <div class="search"><${Icon} name="search" /><input type="text" role="combobox" aria-expanded="true" aria-controls=${`${id}-list`} aria-label=${placeholder} aria-autocomplete="list"
        aria-activedescendant=${found.length ? `${id}-${active}` : undefined} autocomplete="off" spellcheck=${false} placeholder=${placeholder} value=${filter}
        onInput=${(/** @type {any} */ event) => { setFilter(event.target.value); setAt(0); }} onKeyDown=${keys} /></div>
      <div role="listbox" id=${`${id}-list`} aria-label=${label} class="options">${found.map((option, i) => html`
        <div key=${option.value} id=${`${id}-${i}`} class="option" role="option" aria-selected=${i === active} aria-disabled=${option.disabled || undefined} aria-current=${option.value === value ? "true" : undefined}
          onPointerMove=${() => i === active || setAt(i)} onClick=${() => pick(option)}>${render(option)}${option.value === value ? html`<${Icon} name="check" class="picked" />` : html`<i class="unpicked" />`}</div>`)}</div>
      ${!found.length && html`<p class="combobox-none" role="status">${options.length ? "Nothing matches." : none}</p>`}</div>`}
  </div>`;
}
