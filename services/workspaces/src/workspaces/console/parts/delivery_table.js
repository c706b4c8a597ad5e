// What was told to Mnemosyne, run by run.
import { counted, html } from "../lib.js";
import { Copy, Pill } from "./basic.js";
import { Table } from "./table.js";
import { Time } from "./time.js";
import { duration } from "./units.js";

/** @typedef {import("../answers").HookRunView} Run */

/** @type {Record<string, string>} */
const WORDS = {
  on_pallas_registered: "Create the team",
  on_pallas_renamed: "Rename the team",
  on_pallas_deleted: "Retire the team",
  on_workspace_pallas_attached: "Push workspaces: attached",
  on_workspace_pallas_detached: "Push workspaces: detached",
  on_workspace_deleted: "Push workspaces: workspace deleted",
  reconcile: "Reconcile",
};

/** A hook in words; an unknown one by its name. @param {string} hook */
const hookInWords = (hook) => WORDS[hook] ?? hook.replace(/^on_/, "").replaceAll("_", " ");

/** @param {{runs: readonly Run[], named?: boolean, label?: string}} props `named`: with the name of the instance */
export function DeliveryTable({ runs, named = false, label = "Deliveries" }) {
  const instance = {
    title: "Instance", class: "whose",
    cell: (/** @type {Run} */ run) => html`<a href=${`/instances/${encodeURIComponent(run.instance_id)}`} dir="auto">${run.instance_name}</a>`,
  };
  const columns = [
    { title: "Result", cell: (/** @type {Run} */ run) => html`<${Pill} tone=${run.ok ? "ok" : "bad"}>${run.ok ? "Delivered" : "Failed"}<//>` },
    { title: "What", class: "what", cell: What },
    ...(named ? [instance] : []),
    { title: "Attempt", number: true, cell: (/** @type {Run} */ run) => run.attempt },
    { title: "Took", number: true, cell: (/** @type {Run} */ run) => duration(run.took_ms) },
    { title: "When", class: "when", cell: (/** @type {Run} */ run) => html`<${Time} at=${run.at} />` },
    { title: "Correlation", cell: (/** @type {Run} */ run) => html`<span class="correlation"><code title=${run.correlation}>${run.correlation.slice(0, 8)}</code><${Copy} text=${run.correlation} label="Copy the correlation id" /></span>` },
  ];
  return html`<${Table} label=${label} columns=${columns} rows=${runs} keyOf=${(/** @type {Run} */ run) => run.id} />`;
}

/** @param {Run} run */
const What = (run) => html`<div><div title=${run.hook}>${hookInWords(run.hook)}</div>
  ${run.error && html`<div class="fault">${run.error}</div>`}<div class="muted small">${factsOf(run).join(" · ")}</div></div>`;

/** What was done, in a few words. @param {Run} run */
function factsOf({ data }) {
  const ids = Array.isArray(data.workspace_ids) ? data.workspace_ids : null;
  return [ids && counted(ids.length, "workspace"), data.jwt === "new" && "new JWT", data.drift].filter((fact) => typeof fact === "string");
}
