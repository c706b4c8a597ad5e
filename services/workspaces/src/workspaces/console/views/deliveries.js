// Deliveries: what Mnemosyne is not known to have, since when and why.
import { html, useTitle } from "../lib.js";
import { get, post } from "../api.js";
import { Banner, Button, Empty } from "../parts/basic.js";
import { DeliveryTable } from "../parts/delivery_table.js";
import { Loading, useLoaded, useWork } from "../parts/load.js";
import { failed, toast } from "../parts/toast.js";

export default function DeliveriesView() {
  const loaded = useLoaded(() => /** @type {Promise<import("../answers").Deliveries>} */ (get("/deliveries")), [], ["instance"]);
  const { busy, run } = useWork();
  useTitle("Deliveries");
  const reconcile = () => run(async () => {
    await post("/deliveries/reconcile");
    toast("Every instance is compared with Mnemosyne, and told again.");
  }, failed);
  const { data } = loaded;
  return html`<div class="page">
    <header><div><h1>Deliveries</h1><p>What Mnemosyne has yet to be told about teams and their workspaces. Failed deliveries are tried again until they succeed.</p></div>
      <${Button} icon="refresh-cw" busy=${busy} onClick=${reconcile}>Reconcile now<//></header>
    ${loaded.error && html`<${Banner} tone="warn">${loaded.error}<//>`}
    ${!data ? html`<${Loading} loaded=${loaded} lines=${8} />`
      : !data.waiting ? html`<${Empty} icon="circle-check" title="Nothing waits">Mnemosyne has confirmed what is attached here.<//>`
      : html`<p class="waiting" role="status"><b>${data.waiting}</b> ${data.waiting === 1 ? "instance is" : "instances are"} not known to be in sync.</p>
        <${DeliveryTable} deliveries=${data.deliveries} named />`}
  </div>`;
}
