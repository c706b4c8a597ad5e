// Teams that are not known to be in sync with the libraries: since when, why, and when it is tried again.
import { html } from "../lib.js";
import { Copy } from "./basic.js";
import { Table } from "./table.js";
import { Clock, Time } from "./time.js";

/** @typedef {import("../answers").DeliveryView} Delivery */

/** @param {{deliveries: readonly Delivery[], named?: boolean, label?: string}} props `named`: with the name of the team */
export function DeliveryTable({ deliveries, named = false, label = "Changes to sync" }) {
  const instance = {
    title: "Team", class: "whose",
    cell: (/** @type {Delivery} */ one) => html`<a href=${`/teams/${encodeURIComponent(one.instance_id)}`} dir="auto">${one.instance_name}</a>`,
  };
  const columns = [
    ...(named ? [instance] : []),
    { title: "What", class: "what", cell: What },
    { title: "Since", class: "when", cell: (/** @type {Delivery} */ one) => html`<${Time} at=${one.since} />` },
    { title: "Failed tries", number: true, cell: (/** @type {Delivery} */ one) => one.tries },
    { title: "Next try", class: "when", cell: (/** @type {Delivery} */ one) => one.next_try_at ? html`<${Clock} at=${one.next_try_at} />` : "with the next comparison" },
    { title: "Correlation", cell: (/** @type {Delivery} */ one) => html`<span class="correlation"><code title=${one.correlation}>${one.correlation.slice(0, 8)}</code><${Copy} text=${one.correlation} label="Copy the correlation id" /></span>` },
  ];
  return html`<${Table} label=${label} columns=${columns} rows=${deliveries} keyOf=${(/** @type {Delivery} */ one) => one.instance_id} />`;
}

/** @param {Delivery} one */
const What = (one) => html`<div><div>${one.difference ?? "The libraries may know something else."}</div>${one.error && html`<div class="fault">${one.error}</div>`}</div>`;
