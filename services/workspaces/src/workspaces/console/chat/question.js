// What an agent asks in the middle of its work, as a form.
import { html, useId, useMemo, useRef, useState } from "../lib.js";
import { path, post, sentence } from "../api.js";
import { Banner, Button, Icon } from "../parts/basic.js";
import { Control } from "./control.js";
import { contentOf, faultOf, fieldsOf } from "./fields.js";

/** @typedef {"accept" | "decline" | "cancel"} Action */

/** What was typed and not sent, by question: a login or another conversation in between loses nothing. @type {Map<string, Record<string, any>>} */
const unsent = new Map();

/** @param {{reply: string, question: import("../answers").QuestionView}} props */
export function Question({ reply, question: { id: question_id, message, requested_schema: schema, url } }) {
  const fields = useMemo(() => fieldsOf(schema), [question_id]);
  const [values, setValues] = useState(() => unsent.get(question_id) ?? Object.fromEntries(fields.map((field) => [field.name, field.start])));
  const [faults, setFaults] = useState(/** @type {Record<string, string>} */ ({}));
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(/** @type {Action | ""} */ (""));
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  const id = useId();

  /** @param {string} name @returns {HTMLInputElement | null} */
  const controlOf = (name) => form.current?.querySelector(`[name="${CSS.escape(name)}"]`) ?? null;
  const send = async (/** @type {Action} */ action) => {
    setBusy(action);
    setError("");
    const content = action === "accept" && !url ? { content: contentOf(fields, values) } : {};
    try {
      await post(path`/messages/${reply}/answer`, { action, question_id, ...content });
      unsent.delete(question_id);
    } catch (fault) {
      setError(sentence(fault));
    }
    setBusy("");
  };
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const found = fields.map((field) => [field.name, faultOf(field, values[field.name], controlOf(field.name))]);
    setFaults(Object.fromEntries(found));
    const first = found.find(([, fault]) => fault)?.[0];
    if (first) controlOf(first)?.focus();
    else void send("accept");
  };
  /** @param {string} name @param {unknown} value */
  const set = (name, value) => setValues((before) => {
    const next = { ...before, [name]: value };
    unsent.set(question_id, next);
    return next;
  });
  const act = (/** @type {Action} */ action) => ({ busy: busy === action, disabled: busy !== "", onClick: () => send(action) });
  return html`<form class="question" ref=${form} novalidate onSubmit=${submit} aria-labelledby=${id}>
    <p id=${id} class="question-text" dir="auto">${message}</p>
    ${url && html`<${Outside} url=${url} />`}
    ${fields.map((field) => html`<${Control} key=${field.name} id=${`${id}-${field.name}`} field=${field}
      value=${values[field.name]} fault=${faults[field.name] ?? ""} set=${(/** @type {unknown} */ value) => set(field.name, value)} />`)}
    ${error && html`<${Banner} tone="bad">${error}<//>`}
    <footer class="row">
      <${Button} kind="primary" type="submit" busy=${busy === "accept"} disabled=${busy !== ""}>${url ? "Done" : "Answer"}<//>
      <${Button} ...${act("decline")}>Decline<//><${Button} kind="quiet" ...${act("cancel")}>Cancel<//></footer></form>`;
}

/** A page that the agent asks the person to visit. @param {{url: string}} props */
const Outside = ({ url }) => html`
  <a class="button" href=${/^https?:\/\//i.test(url) ? url : undefined} target="_blank" rel="noopener noreferrer">
    <${Icon} name="external-link" /><span class="ellipsis">${url}</span></a>`;
