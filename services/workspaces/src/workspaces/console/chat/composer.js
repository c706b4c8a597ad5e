// Where a message is written: text, images, the agent, and what stands in the way.
import { classes, html, useEffect, useLayoutEffect, useRef, useState, valueTo } from "../lib.js";
import { sentence } from "../api.js";
import { Banner, Icon, IconButton } from "../parts/basic.js";
import { FOCUS_LOST } from "../parts/dialog.js";
import { draftOf, draftPictures, faultOfPaste, keepDraft, newDraft } from "./drafts.js";
import { TYPES, Thumbnails, readPictures, useDrop } from "./images.js";
import { keepPictures, keptPictures } from "./kept_pictures.js";
import { Obstacle, placeholder } from "./obstacle.js";
import { AgentPicker } from "./picker.js";
import { TEXT_TYPES, TextFiles, readTexts, withTexts } from "./texts.js";

/** @typedef {import("./images.js").Picture} Picture */

/**
 * `place` is where the draft belongs; `running` the reply that `cancel` would end, which may be `asking`; `send` throws why
 * it was refused. `stays`: the text is shown until it is sent, as there is no transcript yet.
 * @param {{place: string, agents: import("./agents.js").Agents, running?: string, asking?: boolean, stays?: boolean, cancel?: () => void,
 *   send: (message: {id: string, text: string, pictures: Picture[]}) => Promise<unknown>}} props
 */
export function Composer({ place, agents, running = "", asking = false, stays = false, cancel, send }) {
  const [draft, setDraft] = useState(() => draftOf(place));
  const [pictures, setPictures] = useState(() => draftPictures.get(place) ?? []);
  const touched = useRef(false);
  useEffect(() => {
    if (!touched.current && !pictures.length) return;
    touched.current = true;
    draftPictures.set(place, pictures);
    void keepPictures(place, pictures);
  }, [pictures]);
  useEffect(() => {
    if (!draftPictures.has(place)) void keptPictures(place).then((kept) => kept.length && setPictures((now) => (now.length ? now : kept)));
  }, [place]);
  const [texts, setTexts] = useState(/** @type {import("./texts.js").TextFile[]} */ ([]));
  const [faults, setFaults] = useState(/** @type {string[]} */ ([]));
  const [sending, setSending] = useState(false);
  const box = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const files = useRef(/** @type {HTMLInputElement | null} */ (null));
  const agent = agents.agent.value;
  const barred = !agent || agent.health.status === "error";
  const blind = pictures.length > 0 && agent && !agent.capabilities.vision;
  const ready = !barred && !running && !sending && !blind && (draft.text.trim() !== "" || pictures.length > 0 || texts.length > 0);

  // As soon as it can be written in, and when an answer took away the button that had the focus; unless it is somewhere
  // already. Touch would open a keyboard.
  const write = () => void (matchMedia("(pointer: fine)").matches && box.current?.focus());
  useEffect(() => {
    if (document.activeElement === document.body || document.activeElement?.id === "main") write();
  }, [place, barred, running, asking]);
  useEffect(() => {
    const lost = () => void setTimeout(write); // once the dialog is closed
    addEventListener(FOCUS_LOST, lost);
    return () => removeEventListener(FOCUS_LOST, lost);
  }, []);
  useLayoutEffect(() => {
    if (!box.current || CSS.supports("field-sizing", "content")) return;
    box.current.style.height = "auto";
    box.current.style.height = `${box.current.scrollHeight}px`;
  }, [draft.text]);

  const type = (/** @type {string} */ text) => {
    const next = { ...draft, text };
    setDraft(next);
    keepDraft(place, next);
  };
  const add = async (/** @type {File[]} */ chosen) => {
    const written = await readTexts(chosen, texts);
    const read = await readPictures(written.others, pictures);
    setTexts(written.texts);
    setPictures(read.pictures);
    setFaults([...written.faults, ...read.faults]);
  };
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!ready) return;
    const [message, images, files] = [draft, pictures, texts];
    setSending(true);
    setFaults([]);
    if (!stays) {
      setDraft(newDraft());
      setPictures([]);
      setTexts([]);
    }
    try {
      await send({ id: message.id, text: withTexts(message.text.trim(), files), pictures: images });
      keepDraft(place, newDraft());
      draftPictures.delete(place);
      void keepPictures(place, []);
    } catch (error) {
      // With the same id, so that it becomes one message even if the server has it already.
      setDraft((typed) => (typed.text ? typed : message));
      setPictures(images);
      setTexts(files);
      setFaults([sentence(error)]);
      void agents.load(); // its health or its team may have changed
    }
    setSending(false);
    box.current?.focus();
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    if (!matchMedia("(pointer: coarse)").matches) void submit(event);
  };
  const drop = useDrop(box, add);
  const paste = (/** @type {ClipboardEvent} */ event) => {
    const images = [...(event.clipboardData?.files ?? [])];
    const fault = faultOfPaste(draft.text, event.clipboardData?.getData("text/plain") ?? "");
    if (!images.length && !fault) return;
    event.preventDefault();
    if (images.length) void add(images);
    else setFaults([fault]);
  };
  const choose = (/** @type {{target: HTMLInputElement}} */ { target }) => {
    void add([...(target.files ?? [])]);
    target.value = "";
  };
  const without = (/** @type {Picture} */ gone) => setPictures(pictures.filter((each) => each !== gone));
  return html`<form class="composer" onSubmit=${submit}>
    <${Obstacle} agents=${agents} />
    ${blind && html`<${Banner} tone="warn">
      ${agent.title} cannot see images. Pick an agent with the sign of an eye, or remove them.<//>`}
    ${faults.map((fault) => html`<${Banner} tone="bad" key=${fault}>${fault}<//>`)}
    <div class=${classes("composer-box", barred && "barred", drop && "dropping")}>
      ${texts.length > 0 && html`<${TextFiles} texts=${texts} onDrop=${(/** @type {import("./texts.js").TextFile} */ gone) => setTexts(texts.filter((each) => each !== gone))} />`}
      ${pictures.length > 0 && html`<${Thumbnails} pictures=${pictures} onDrop=${without} />`}
      <textarea ref=${box} rows="1" dir="auto" aria-label="Message" placeholder=${placeholder(agents)} value=${draft.text}
        disabled=${barred} readonly=${stays && sending} onInput=${valueTo(type)} onKeyDown=${keys} onPaste=${paste} enterkeyhint="send" />
      <div class="composer-foot"><${AgentPicker} agents=${agents} onPicked=${() => setTimeout(write)} /><span class="grow" />
        <input ref=${files} type="file" accept=${`${TYPES.join(",")},${TEXT_TYPES}`} multiple hidden onChange=${choose} />
        <${IconButton} icon="paperclip" label=${agent?.capabilities.vision ? "Add images or text files" : "Add text files"} disabled=${barred} onClick=${() => files.current?.click()} />
        ${running ? html`<${Stop} onClick=${once(cancel)} />` : html`<${Send} disabled=${!ready} />`}</div>
      ${drop && html`<p class="drop-here">Drop images or text files here</p>`}</div></form>`;
}

/** Not for the second click of a double click, whose first one was on another button here. @param {(() => void) | undefined} act */
const once = (act) => (/** @type {MouseEvent} */ event) => event.detail < 2 && act?.();

/** @param {{disabled: boolean}} props */
const Send = ({ disabled }) => html`
  <button type="submit" class="send" aria-label="Send" title="Send (Enter)" disabled=${disabled}><${Icon} name="arrow-up" /></button>`;

/** @param {{onClick: (() => void) | undefined}} props */
const Stop = ({ onClick }) => html`
  <button type="button" class="send stop" aria-label="Cancel the answer" title="Cancel the answer" onClick=${onClick}>
    <${Icon} name="square" size=${12} /></button>`;
