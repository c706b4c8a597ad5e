// A button that opens a short list of actions.
import { html, useEffect, useId, useRef, useState } from "../lib.js";
import { Icon } from "./basic.js";

/** @typedef {{label: string, icon?: string, danger?: boolean, checked?: boolean, act: () => void}} Action */

/** @param {{label: string, icon?: string, actions: Action[], children?: import("../lib.js").Children, class?: string, up?: boolean}} props */
export function Menu({ label, icon = "ellipsis", actions, children, class: extra, up = false }) {
  const [open, setOpen] = useState(false);
  const root = useRef(/** @type {HTMLElement | null} */ (null));
  const id = useId();
  const items = () => /** @type {HTMLElement[]} */ ([...(root.current?.querySelectorAll('[role^="menuitem"]') ?? [])]);
  const close = () => {
    setOpen(false);
    root.current?.querySelector("button")?.focus();
  };
  useEffect(() => {
    if (!open) return undefined;
    (items().find((item) => item.getAttribute("aria-checked") === "true") ?? items()[0])?.focus();
    const away = (/** @type {Event} */ event) => root.current?.contains(/** @type {Node} */ (event.target)) || setOpen(false);
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [open]);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (!open) return;
    const all = items();
    const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 + all.length, Home: 0, End: all.length - 1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") close();
    else if (to !== undefined) all[to % all.length]?.focus();
    if (event.key !== "Tab" && (to !== undefined || event.key === "Escape")) event.preventDefault();
  };
  return html`<span class="menu ${extra ?? ""}" ref=${root} onKeyDown=${keys}>
    <button type="button" class=${children ? "menu-button" : "icon-button"} aria-haspopup="menu" aria-expanded=${open} aria-controls=${open ? id : undefined}
      aria-label=${label} title=${label} onClick=${() => setOpen(!open)}>${children ?? html`<${Icon} name=${icon} />`}</button>
    ${open && html`<div class=${up ? "menu-list up" : "menu-list"} role="menu" id=${id} aria-label=${label}>${actions.map((action) => html`
      <button type="button" tabindex="-1" role=${action.checked === undefined ? "menuitem" : "menuitemradio"} aria-checked=${action.checked}
        class=${action.danger ? "danger" : ""} onClick=${() => { close(); action.act(); }}>
        ${action.icon && html`<${Icon} name=${action.icon} />`}<span class="grow">${action.label}</span>${action.checked && html`<${Icon} name="check" />`}</button>`)}</div>`}
  </span>`;
}
