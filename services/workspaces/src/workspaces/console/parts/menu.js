// A button that opens a short list of actions, above everything else in the page.
import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "../lib.js";
import { Icon } from "./basic.js";

const GAP_PX = 4;

/** @typedef {{label: string, icon?: string, danger?: boolean, checked?: boolean, act: () => void}} Action */

/** @param {{label: string, icon?: string, actions: Action[]}} props */
export function Menu({ label, icon = "ellipsis", actions }) {
  const [open, setOpen] = useState(false);
  const button = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const id = useId();
  const items = () => /** @type {HTMLElement[]} */ ([...(list.current?.children ?? [])]);
  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  useLayoutEffect(() => {
    if (!open || !list.current || !button.current) return;
    list.current.showPopover();
    place(list.current, button.current.getBoundingClientRect());
    (items().find((item) => item.getAttribute("aria-checked") === "true") ?? items()[0])?.focus();
  }, [open]);
  useEffect(() => {
    if (!open) return undefined;
    const ended = new AbortController();
    const away = (/** @type {Event} */ event) => {
      const target = /** @type {Node} */ (event.target);
      if (!list.current?.contains(target) && !button.current?.contains(target)) setOpen(false);
    };
    document.addEventListener("pointerdown", away, { signal: ended.signal });
    document.addEventListener("scroll", away, { signal: ended.signal, capture: true });
    addEventListener("resize", () => setOpen(false), { signal: ended.signal });
    return () => ended.abort();
  }, [open]);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const all = items();
    const at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 + all.length, Home: 0, End: all.length - 1 }[event.key];
    if (event.key === "Escape" || event.key === "Tab") close();
    else if (to !== undefined) all[to % all.length]?.focus();
    if (event.key !== "Escape" && to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<span class="menu">
    <button type="button" ref=${button} class="icon-button" aria-label=${label} title=${label} aria-haspopup="menu" aria-expanded=${open}
      aria-controls=${open ? id : undefined} onClick=${() => setOpen(!open)}><${Icon} name=${icon} /></button>
    ${open && html`<div class="menu-list" role="menu" popover="manual" ref=${list} id=${id} aria-label=${label} onKeyDown=${keys}>
      ${actions.map((action) => html`<${Item} key=${action.label} action=${action} close=${close} />`)}</div>`}
  </span>`;
}

/** @param {{action: Action, close: () => void}} props */
function Item({ action: { label, icon, danger, checked, act }, close }) {
  const pick = () => {
    close();
    act();
  };
  return html`<button type="button" tabindex="-1" role=${checked === undefined ? "menuitem" : "menuitemradio"} aria-checked=${checked}
    class=${danger ? "danger" : ""} onClick=${pick}>
    ${icon && html`<${Icon} name=${icon} />`}<span class="grow">${label}</span>${checked && html`<${Icon} name="check" />`}</button>`;
}

/** Below the button, or above it where there is no room; never beyond the window. @param {HTMLElement} list @param {DOMRect} button */
function place(list, button) {
  const below = button.bottom + GAP_PX + list.offsetHeight <= innerHeight;
  const left = Math.max(GAP_PX, Math.min(button.right - list.offsetWidth, innerWidth - list.offsetWidth - GAP_PX));
  list.style.left = `${left}px`;
  list.style.top = `${below ? button.bottom + GAP_PX : button.top - GAP_PX - list.offsetHeight}px`;
}
