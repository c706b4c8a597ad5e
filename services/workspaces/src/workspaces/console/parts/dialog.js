// Dialogs on top of the page. The browser keeps the focus inside and gives it back.
import { html, signal, useEffect, useId, useRef, useState } from "../lib.js";
import { sentence } from "../api.js";
import { Banner, Button, IconButton } from "./basic.js";

/** What a window hears when a dialog closes and what had the focus before is gone. */
export const FOCUS_LOST = "pallas-focus-lost";

/**
 * Open as long as it is rendered. Escape and a click beside it close it.
 * @param {{title: string, onClose: () => void, children?: import("../lib.js").Children}} props
 */
export function Dialog({ title, onClose, children }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
      else dispatchEvent(new Event(FOCUS_LOST));
    };
  }, []);
  const beside = (/** @type {MouseEvent} */ event) => event.target === dialog.current && onClose();
  const cancel = (/** @type {Event} */ event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${dialog} aria-labelledby=${id} onCancel=${cancel} onMouseDown=${beside}>
    <div class="dialog">
      <header><h2 id=${id}>${title}</h2><${IconButton} icon="x" label="Close" onClick=${onClose} /></header>${children}</div></dialog>`;
}

/**
 * @typedef {object} Question
 * @property {string} title
 * @property {import("../lib.js").Children} text
 * @property {string} action the word on the button
 * @property {boolean} [danger]
 * @property {() => Promise<unknown>} act its failure is shown in the dialog
 */

/** @type {import("../lib.js").Signal<Question | null>} */
const asked = signal(null);

/** Ask before something is done. @param {Question} question */
export const confirm = (question) => (asked.value = question);

/** Where `confirm` appears, once in the page. */
export const Confirm = () => asked.value && html`<${Ask} key=${asked.value.title} question=${asked.value} />`;

/** @param {{question: Question}} props */
function Ask({ question }) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const close = () => (asked.value = null);
  const act = async () => {
    setBusy(true);
    try {
      await question.act();
      close();
    } catch (fault) {
      setError(sentence(fault));
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${question.title} onClose=${close}>
    <div class="dialog-body"><p>${question.text}</p>${error && html`<${Banner} tone="bad">${error}<//>`}</div>
    <footer><${Button} onClick=${close} autofocus=${question.danger}>Cancel<//>
      <${Button} kind=${question.danger ? "danger" : "primary"} busy=${busy} onClick=${act} autofocus=${!question.danger}>${question.action}<//></footer><//>`;
}
