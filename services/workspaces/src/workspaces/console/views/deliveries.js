// Deliveries: everything that Mnemosyne was told, what failed, how many hooks still wait, and whether teams can be compared.
import { html, useEffect, useState, useTitle, valueTo } from "../lib.js";
import { get, post } from "../api.js";
import { Banner, Button, Empty } from "../parts/basic.js";
import { DeliveryTable } from "../parts/delivery_table.js";
import { Loading, useLoaded, useWork } from "../parts/load.js";
import { navigate } from "../router.js";
import { failed, toast } from "../parts/toast.js";

/** @typedef {import("../answers").HookRunView} Run */
/** @typedef {import("../answers").HookRuns} Runs */

const PAGE = 50;

/** @param {{query: URLSearchParams}} props */
export default function DeliveriesView({ query }) {
  const instance = query.get("instance") ?? "";
  const filter = instance ? `&instance_id=${encodeURIComponent(instance)}` : "";
  const loaded = useLoaded(() => /** @type {Promise<Runs>} */ (get(`/hooks?limit=${PAGE}${filter}`)), [filter], ["hooks", "instance"]);
  const [older, setOlder] = useState(/** @type {{runs: Run[], next: number | null} | null} */ (null));
  const { busy, run } = useWork();
  useTitle("Deliveries");
  useEffect(() => setOlder(null), [filter]);
  const reconcile = () => run(async () => {
    await post("/hooks/reconcile");
    toast("Every instance is compared with Mnemosyne and told again.");
  }, failed);
  const more = () => run(async () => {
    const next = older ? older.next : loaded.data?.next;
    /** @type {Runs} */
    const page = await get(`/hooks?limit=${PAGE}&before=${next}${filter}`);
    setOlder({ runs: [...(older?.runs ?? []), ...page.runs], next: page.next });
  }, failed);
  const first = loaded.data?.runs ?? [];
  const lowest = first.at(-1)?.id ?? Infinity;
  const runs = [...first, ...(older?.runs ?? []).filter((run) => run.id < lowest)];
  const next = older ? older.next : loaded.data?.next;
  return html`<div class="page">
    <header><div><h1>Deliveries</h1><p>What Mnemosyne was told about teams and their workspaces. Failed deliveries are tried again until they succeed.</p></div>
      <${Button} icon="refresh-cw" busy=${busy} onClick=${reconcile}>Reconcile now<//></header>
    <div class="row wrap"><${Instances} chosen=${instance} /><${Waiting} due=${loaded.data?.due ?? 0} /></div>
    ${loaded.data?.uncompared && html`<${Banner} tone="warn">${loaded.data.uncompared}<//>`}
    ${!loaded.data ? html`<${Loading} loaded=${loaded} lines=${8} />`
      : !runs.length ? html`<${Empty} icon="inbox" title="Nothing was delivered yet">Attach a team to a workspace, and Mnemosyne is told at once.<//>`
      : html`${loaded.error && html`<${Banner} tone="warn">${loaded.error}<//>`}<${DeliveryTable} runs=${runs} named />
        ${next && html`<div class="more"><${Button} busy=${busy} onClick=${more}>Load older<//></div>`}`}
  </div>`;
}

/** @param {{due: number}} props */
const Waiting = ({ due }) => html`<p class="waiting" role="status">${due === 0 ? html`<span class="muted">Nothing waits.</span>`
  : html`<b>${due}</b> ${due === 1 ? "instance waits" : "instances wait"} to be delivered.`}</p>`;

/** @param {{chosen: string}} props */
function Instances({ chosen }) {
  const loaded = useLoaded(() => get("/pallas").then((/** @type {import("../answers").Instances} */ found) => found.instances), [], ["instance"]);
  const choose = (/** @type {string} */ id) => navigate(id ? `/deliveries?instance=${encodeURIComponent(id)}` : "/deliveries", { replace: true });
  return html`<select aria-label="Instance" class="filter" value=${chosen} onChange=${valueTo(choose)}><option value="">All instances</option>
    ${(loaded.data ?? []).map((each) => html`<option key=${each.id} value=${each.id} selected=${each.id === chosen}>${each.name}</option>`)}</select>`;
}
