// What an agent asks in the middle of its work, as a form.
import { html, useId, useMemo, useRef, useState } from "../lib.js";
import { path, post, sentence } from "../api.js";
import { Banner, Button, Field, Icon } from "../parts/basic.js";
import { contentOf, faultOf, fieldsOf } from "./fields.js";

/** @param {{reply: string, question: import("../answers").QuestionView}} props */
export function Question({ reply, question }) {
  const fields = useMemo(() => fieldsOf(question.requested_schema), [question]);
  const [values, setValues] = useState(() => Object.fromEntries(fields.map((field) => [field.name, field.start])));
  const [faults, setFaults] = useState(/** @type {Record<string, string>} */ ({}));
  const [error, setError] = useState("");
  const [busy, setBusy] = useState("");
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  const id = useId();

  const send = async (/** @type {"accept" | "decline" | "cancel"} */ action) => {
    setBusy(action);
    setError("");
    try {
      await post(path`/messages/${reply}/answer`, { action, question_id: question.id, ...(action === "accept" && !question.url && { content: contentOf(fields, values) }) });
    } catch (fault) {
      setError(sentence(fault));
    }
    setBusy("");
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const found = Object.fromEntries(fields.map((field) => [field.name, faultOf(field, values[field.name], form.current?.querySelector(`[name="${CSS.escape(field.name)}"]`) ?? null)]));
    setFaults(found);
    const first = fields.find((field) => found[field.name]);
    if (first) form.current?.querySelector(/** @type {any} */ (`[name="${CSS.escape(first.name)}"]`))?.focus();
    else void send("accept");
  };
  const set = (/** @type {string} */ name) => (/** @type {any} */ value) => setValues((before) => ({ ...before, [name]: value }));
  return html`<form class="question" ref=${form} novalidate onSubmit=${submit} aria-labelledby=${id}>
    <p id=${id} class="question-text" dir="auto">${question.message}</p>
    ${question.url && html`<a class="button" href=${safe(question.url)} target="_blank" rel="noopener noreferrer"><${Icon} name="external-link" /><span class="ellipsis">${question.url}</span></a>`}
    ${fields.map((field) => html`<${Control} key=${field.name} id=${`${id}-${field.name}`} field=${field} value=${values[field.name]} fault=${faults[field.name] ?? ""} set=${set(field.name)} />`)}
    ${error && html`<${Banner} tone="bad">${error}<//>`}
    <footer class="row"><${Button} kind="primary" type="submit" busy=${busy === "accept"} disabled=${busy !== ""}>${question.url ? "Done" : "Answer"}<//>
      <${Button} busy=${busy === "decline"} disabled=${busy !== ""} onClick=${() => send("decline")}>Decline<//>
      <${Button} kind="quiet" busy=${busy === "cancel"} disabled=${busy !== ""} onClick=${() => send("cancel")}>Cancel<//></footer></form>`;
}

/** @param {string} url */
const safe = (url) => (/^https?:\/\//i.test(url) ? url : undefined);

/** @param {{id: string, field: import("./fields.js").FieldSpec, value: any, fault: string, set: (value: any) => void}} props */
function Control({ id, field, value, fault, set }) {
  const about = { id, name: field.name, required: field.required, "aria-invalid": fault ? "true" : undefined, "aria-describedby": fault || field.hint ? `${id}-hint` : undefined };
  const label = field.required ? field.title : `${field.title} (optional)`;
  if (field.kind === "checkbox")
    return html`<label class="check"><input type="checkbox" ...${about} checked=${Boolean(value)} onChange=${(/** @type {any} */ event) => set(event.target.checked)} /><span>${field.title}${field.hint && html`<small id=${`${id}-hint`}>${field.hint}</small>`}</span></label>`;
  if (field.kind === "choices")
    return html`<fieldset class="field"><legend>${label}</legend>${field.options.map((option) => html`<label class="check"><input type="checkbox" name=${field.name} checked=${value.includes(option.value)}
      onChange=${(/** @type {any} */ event) => set(event.target.checked ? [...value, option.value] : value.filter((/** @type {unknown} */ each) => each !== option.value))} /><span>${option.title}</span></label>`)}
      ${fault && html`<p class="fault" role="alert">${fault}</p>`}</fieldset>`;
  const control = field.kind === "choice"
    ? html`<select ...${about} onChange=${(/** @type {any} */ event) => set(field.options[event.target.selectedIndex - 1]?.value ?? "")}><option value="" selected=${value === ""}>Choose…</option>${field.options.map((option) => html`
        <option value=${String(option.value)} selected=${option.value === value}>${option.title}</option>`)}</select>`
    : html`<input type=${field.kind} ...${about} ...${field.limits} value=${value} dir="auto" autocomplete="off" onInput=${(/** @type {any} */ event) => set(event.target.value)} />`;
  return html`<${Field} label=${label} for=${id} hint=${field.hint} error=${fault}>${control}<//>`;
}
