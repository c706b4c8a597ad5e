// One field of a form that an agent asks with.
import { checkedTo, html, valueTo } from "../lib.js";
import { Field } from "../parts/basic.js";

/** @typedef {import("./fields.js").FieldSpec} FieldSpec */
/** @typedef {{field: FieldSpec, value: any, fault: string, set: (value: unknown) => void}} Props */

/** `id` is that of its control. @param {Props & {id: string}} props */
export function Control({ id, field, value, fault, set }) {
  const { kind, name, title, hint, required } = field;
  if (kind === "choices") return html`<${Choices} field=${field} value=${value} fault=${fault} set=${set} />`;
  const described = fault || hint ? `${id}-hint` : undefined;
  const about = { id, name, required, "aria-invalid": fault ? "true" : undefined, "aria-describedby": described };
  if (kind === "checkbox") // which browsers want ticked if it is required, although no is an answer, too
    return html`<label class="check"><input type="checkbox" ...${about} required=${false} checked=${Boolean(value)} onChange=${checkedTo(set)} />
      <span>${title}${hint && html`<small id=${`${id}-hint`}>${hint}</small>`}</span></label>`;
  const control = kind === "choice"
    ? html`<${Choice} about=${about} field=${field} value=${value} set=${set} />`
    : html`<input type=${kind} ...${about} ...${field.limits} value=${value} dir="auto" autocomplete="off" onInput=${valueTo(set)} />`;
  return html`<${Field} label=${labelOf(field)} for=${id} hint=${hint} error=${fault}>${control}<//>`;
}

/** @param {FieldSpec} field */
const labelOf = ({ title, required }) => (required ? title : `${title} (optional)`);

/** One of several. @param {Omit<Props, "fault"> & {about: object}} props */
const Choice = ({ about, field, value, set }) => html`
  <select ...${about} onChange=${valueTo((index) => set(field.options[Number(index)]?.value ?? ""))}>
    <option value="" selected=${value === ""}>Choose…</option>
    ${field.options.map((option, i) => html`<option value=${i} selected=${option.value === value}>${option.title}</option>`)}</select>`;

/** Any of several. @param {Props} props */
function Choices({ field, value, fault, set }) {
  const tick = (/** @type {unknown} */ one) => (/** @type {boolean} */ checked) =>
    set(checked ? [...value, one] : value.filter((/** @type {unknown} */ each) => each !== one));
  const none = field.required && !field.least && "You may choose none.";
  return html`<fieldset class="field"><legend>${labelOf(field)}</legend>
    ${(field.hint || none) && html`<p class="hint">${field.hint} ${none}</p>`}
    ${field.options.map((option) => html`<label class="check" key=${option.title}>
      <input type="checkbox" name=${field.name} checked=${value.includes(option.value)} onChange=${checkedTo(tick(option.value))} />
      <span>${option.title}</span></label>`)}
    ${fault && html`<p class="fault" role="alert">${fault}</p>`}</fieldset>`;
}
