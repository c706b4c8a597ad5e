// Fields of a form for a flat JSON Schema, as agents send it with a question.

/**
 * @typedef {object} FieldSpec
 * @property {string} name
 * @property {string} title
 * @property {string} hint
 * @property {boolean} required
 * @property {"text" | "email" | "url" | "date" | "datetime-local" | "number" | "checkbox" | "choice" | "choices"} kind
 * @property {{value: string | number, title: string}[]} options of choices
 * @property {any} start what the field has in the beginning
 * @property {Record<string, unknown>} limits attributes of the control
 * @property {boolean} whole numbers only
 * @property {number} least how many choices are needed
 * @property {number} most how many there may be
 */

/** @type {Record<string, FieldSpec["kind"]>} */
const FORMATS = { email: "email", uri: "url", date: "date", "date-time": "datetime-local" };

/** @param {Record<string, any> | null} schema @returns {FieldSpec[]} */
export function fieldsOf(schema) {
  const required = new Set(schema?.required ?? []);
  return Object.entries(schema?.properties ?? {}).map(([name, property]) => fieldOf(name, property ?? {}, required.has(name)));
}

/** @param {string} name @param {Record<string, any>} property @param {boolean} required @returns {FieldSpec} */
function fieldOf(name, property, required) {
  const list = property.type === "array" ? (property.items ?? {}) : property;
  const options = optionsOf(list);
  const number = property.type === "number" || property.type === "integer";
  const kind = kindOf(property, options.length > 0);
  const whole = property.type === "integer";
  const limits = number
    ? { min: property.minimum, max: property.maximum, step: whole ? 1 : "any" }
    : { minlength: property.minLength, maxlength: property.maxLength };
  const start = property.default ?? (kind === "checkbox" ? false : kind === "choices" ? [] : "");
  const [title, hint] = [property.title ?? name, property.description ?? ""];
  const [least, most] = [property.minItems ?? 0, property.maxItems ?? Infinity];
  return { name, title, hint, required, kind, options, start, limits, whole, least, most };
}

/** @param {Record<string, any>} property @param {boolean} chosen from a list @returns {FieldSpec["kind"]} */
function kindOf({ type, format }, chosen) {
  if (chosen) return type === "array" ? "choices" : "choice";
  if (type === "boolean") return "checkbox";
  return type === "number" || type === "integer" ? "number" : (FORMATS[format] ?? "text");
}

/** @param {Record<string, any>} property */
function optionsOf(property) {
  if (Array.isArray(property.enum))
    return property.enum.map((value, i) => ({ value, title: String(property.enumNames?.[i] ?? value) }));
  const named = property.oneOf ?? property.anyOf;
  if (!Array.isArray(named)) return [];
  return named.filter((each) => "const" in each).map((each) => ({ value: each.const, title: String(each.title ?? each.const) }));
}

/**
 * What is wrong with a value, or "".
 * @param {FieldSpec} field
 * @param {any} value
 * @param {HTMLInputElement | null} control whose own checks count as well
 */
export function faultOf(field, value, control) {
  if (field.kind === "choices") return faultOfChoices(field, value.length);
  const empty = value === "" || value === undefined;
  if (field.required && empty) return "This is needed.";
  if (control && !control.validity.valid) return control.validationMessage;
  if (!empty && field.whole && !Number.isInteger(Number(value))) return "A whole number is needed.";
  return "";
}

/** No choice is an answer, too, unless the schema wants some. @param {FieldSpec} field @param {number} chosen */
function faultOfChoices({ required, least, most }, chosen) {
  if (chosen > most) return `Choose at most ${most}.`;
  if (chosen >= least || (!chosen && !required)) return "";
  return `Choose at least ${least}${required ? "" : ", or none"}.`;
}

/** The values as the schema wants them; what was left empty is left out. @param {FieldSpec[]} fields @param {Record<string, any>} values */
export function contentOf(fields, values) {
  /** @type {Record<string, unknown>} */
  const content = {};
  for (const { name, kind, required } of fields) {
    const value = values[name];
    if (value === "" || (kind === "choices" && !value.length && !required)) continue;
    content[name] = kind === "number" ? Number(value) : kind === "datetime-local" ? new Date(value).toISOString() : value;
  }
  return content;
}
