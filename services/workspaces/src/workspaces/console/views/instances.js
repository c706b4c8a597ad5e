// All teams, which the contracts call Pallas instances: their agents, and what the libraries are not known to have of them.
import { counted, html, useState, useTitle } from "../lib.js";
import { get, post } from "../api.js";
import { navigate } from "../router.js";
import { Banner, Button, Empty, Pill } from "../parts/basic.js";
import { AddInstance } from "../parts/add_instance.js";
import { Agents, StatusPill, Unprovisioned, Unusable, shortUrl } from "../parts/instance.js";
import { DeliveryTable } from "../parts/delivery_table.js";
import { Loading, useLoaded, useWork } from "../parts/load.js";
import { Time } from "../parts/time.js";
import { failed, toast } from "../parts/toast.js";
import { fewOf } from "../parts/worst.js";

/** @typedef {import("../answers").InstanceView} Instance */

export default function InstancesView() {
  const loaded = useLoaded(() => get("/pallas").then((/** @type {import("../answers").Instances} */ found) => found.instances), [], ["instance", "health"]);
  const [adding, setAdding] = useState(false);
  useTitle("Teams");
  const add = html`<${Button} kind="primary" icon="plus" onClick=${() => setAdding(true)}>Add team<//>`;
  const added = (/** @type {Instance} */ instance) => {
    if (loaded.data?.some((each) => each.id === instance.id)) toast(`${instance.name} is here already.`);
    navigate(hrefOf(instance));
  };
  const { busy, run } = useWork();
  const sync = () => run(async () => {
    await post("/deliveries/reconcile");
    toast("Every team is compared with the libraries now.");
  }, failed);
  const replace = (/** @type {Instance} */ after) => loaded.data && loaded.set(loaded.data.map((each) => (each.id === after.id ? after : each)));
  return html`<div class="page">
    <header class="page-head"><div class="grow"><h1>Teams</h1>
      <p>Teams of agents. Attach a team to a workspace to talk to its agents there; it then reads the workspace's libraries.</p></div>${loaded.data?.length ? html`<${Button} icon="refresh-cw" busy=${busy} onClick=${sync}>Sync now<//>${add}` : null}</header>
    ${!loaded.data ? html`<${Loading} loaded=${loaded} />` : !loaded.data.length ? html`<${Empty} icon="users" title="No teams yet" action=${add}>
        Add the address of a registry. Its agents appear here, and can then be attached to workspaces.<//>`
      : html`<div class="cards">${loaded.data.map((instance) => html`<${Card} key=${instance.id} instance=${instance} onDone=${replace} />`)}</div>`}
    <${Unsynced} />
    ${adding && html`<${AddInstance} onClose=${() => setAdding(false)} onAdded=${added} />`}
  </div>`;
}

/** Teams of which the libraries are not known to have everything; nothing if there are none. */
function Unsynced() {
  const { data } = useLoaded(() => /** @type {Promise<import("../answers").Deliveries>} */ (get("/deliveries")), [], ["instance"]);
  if (!data?.waiting) return null;
  return html`<section aria-labelledby="sync-title" class="stack-small">
    <h2 id="sync-title">Not in sync with the libraries</h2>
    <p class="muted">Changes that the libraries are not known to have. Each is tried again until it succeeds.</p>
    <${DeliveryTable} deliveries=${data.deliveries} named /></section>`;
}

/** Agents of one team. Its own page has all. */
const MOST = 6;

/** @param {Instance} instance */
const hrefOf = (instance) => `/teams/${encodeURIComponent(instance.id)}`;

/** @param {{instance: Instance, onDone: (after: Instance) => void}} props */
const Card = ({ instance, onDone }) => html`<article class="card instance" aria-label=${instance.name}>
  <header><div class="grow"><h2><a href=${hrefOf(instance)} dir="auto">${instance.name}</a></h2>
      <p class="muted url">${shortUrl(instance.registry_url)}</p></div>
    ${instance.jwt === "ready" && html`<${Pill} tone="warn" icon="key-round" title="It was not shown yet">JWT ready<//>`}
    <${StatusPill} instance=${instance} /></header>
  <${Unprovisioned} instance=${instance} onDone=${onDone} />
  ${instance.drift && html`<${Banner} tone="warn">${instance.drift}<//>`}
  ${instance.last_fetch_error && html`<${Banner} tone="warn" icon="wifi-off">Its agents could not be read: ${instance.last_fetch_error}<//>`}
  ${instance.agents.length ? html`<${Agents} agents=${fewOf(instance.agents, MOST)} />` : html`<p class="muted">No agents are known yet.</p>`}
  ${instance.agents.length > MOST && html`<p><a href=${hrefOf(instance)}>All ${counted(instance.agents.length, "agent")}</a></p>`}
  <${Unusable} entries=${instance.unusable} />
  <footer class="muted">${counted(instance.agents.length, "agent")} · attached to ${counted(instance.workspace_ids.length, "workspace")} · read <${Time} at=${instance.last_fetched_at} /></footer>
</article>`;
