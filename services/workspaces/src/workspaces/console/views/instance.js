// One team, which the contracts call a Pallas instance: its token, what the libraries know of it, and its agents.
import { counted, html, useState, useTitle } from "../lib.js";
import { ApiError, get, path, post } from "../api.js";
import { navigate } from "../router.js";
import { Banner, Button, Copy, Empty, Icon } from "../parts/basic.js";
import { BelievedCard } from "../parts/believed.js";
import { DeliveryTable } from "../parts/delivery_table.js";
import { Agents, StatusPill, Unprovisioned, Unusable } from "../parts/instance.js";
import { AgentTokenDialog, DeleteDialog, EditDialog } from "../parts/instance_dialogs.js";
import { Loading, useLoaded, useWork } from "../parts/load.js";
import { Menu } from "../parts/menu.js";
import { TeamToken } from "../parts/reveal.js";
import { Time } from "../parts/time.js";
import { failed, toast } from "../parts/toast.js";

/** @typedef {import("../answers").InstanceView} Instance */
/** @typedef {"edit" | "token" | "delete" | null} Open */

/** Stands for an instance that does not exist. */
const NONE = /** @type {Instance} */ ({});

/** @param {unknown} error */
function gone(error) {
  if (error instanceof ApiError && error.status === 404) return NONE;
  throw error;
}

/** @param {{params: {id: string}}} props */
export default function InstanceView({ params }) {
  const { id } = params;
  const loaded = useLoaded(() => /** @type {Promise<Instance>} */ (get(path`/pallas/${id}`).catch(gone)), [id], ["instance", "health"]);
  const [open, setOpen] = useState(/** @type {Open} */ (null));
  const instance = loaded.data;
  useTitle(instance?.name ?? "Team");
  if (!instance || (instance !== NONE && instance.id !== id)) return html`<div class="page"><${Back} /><${Loading} loaded=${loaded} lines=${8} /></div>`;
  if (instance === NONE)
    return html`<div class="page"><${Back} /><${Empty} icon="server" whole title="There is no such team" action=${html`<${Button} href="/teams">Teams<//>`}>
      It may have been deleted.<//></div>`;
  const close = () => setOpen(null);
  return html`<div class="page">
    <${Back} /><${Head} instance=${instance} loaded=${loaded} open=${setOpen} />
    <${Unprovisioned} instance=${instance} onDone=${loaded.set} />
    <${TeamToken} instance=${instance} onChanged=${loaded.set} />
    <${BelievedCard} instance=${instance} onChanged=${loaded.set} />
    <section class="card" aria-labelledby="agents-title"><header><h2 id="agents-title" class="grow">${counted(instance.agents.length, "agent")}</h2></header>
      ${instance.agents.length ? html`<${Agents} agents=${instance.agents} full />` : html`<p class="muted">It has listed none so far.</p>`}
      <${Unusable} entries=${instance.unusable} /></section>
    <${About} instance=${instance} onToken=${() => setOpen("token")} />
    <${Waiting} id=${id} />
    ${open === "edit" && html`<${EditDialog} instance=${instance} onClose=${close} onDone=${loaded.set} />`}
    ${open === "token" && html`<${AgentTokenDialog} instance=${instance} onClose=${close} onDone=${loaded.set} />`}
    ${open === "delete" && html`<${DeleteDialog} instance=${instance} onClose=${close} onDone=${() => navigate("/teams")} />`}
  </div>`;
}

const Back = () => html`<nav aria-label="Breadcrumb" class="crumbs"><a href="/teams"><${Icon} name="arrow-left" size=${14} />Teams</a></nav>`;

/** @param {{instance: Instance, loaded: import("../parts/load.js").Loaded<Instance>, open: (open: Open) => void}} props */
function Head({ instance, loaded, open }) {
  const { busy, run } = useWork();
  const refresh = () => run(async () => {
    const after = /** @type {Instance} */ (await post(path`/pallas/${instance.id}/refresh`));
    loaded.set(after);
    if (!after.last_fetch_error) toast(`There are ${counted(after.agents.length, "agent")}.`);
  }, (error) => {
    failed(error);
    void loaded.reload();
  });
  return html`<header><div><div class="row wrap"><h1 dir="auto">${instance.name}</h1><${StatusPill} instance=${instance} /></div>
      <p>${attachedTo(instance.workspace_ids.length)} · agents read <${Time} at=${instance.last_fetched_at} /></p></div>
    <div class="row"><${Button} icon="refresh-cw" busy=${busy} onClick=${refresh}>Refresh<//>
      <${Menu} label="More" actions=${[
        { label: "Edit", icon: "pencil", act: () => open("edit") },
        { label: "Agent token", icon: "key-round", act: () => open("token") },
        { label: "Delete", icon: "trash-2", danger: true, act: () => open("delete") },
      ]} /></div></header>
    ${loaded.error && html`<${Banner} tone="warn" icon="wifi-off">${loaded.error}<//>`}
    ${instance.last_fetch_error && html`<${Banner} tone="warn" icon="wifi-off">Its agents could not be read: ${instance.last_fetch_error}. Those shown were read before.<//>`}`;
}

/** @param {number} workspaces */
const attachedTo = (workspaces) => (workspaces ? `Attached to ${counted(workspaces, "workspace")}` : "Not attached to any workspace");

/** @param {{instance: Instance, onToken: () => void}} props */
const About = ({ instance, onToken }) => html`<section class="card" aria-labelledby="about-title">
  <header><h2 id="about-title" class="grow">About</h2></header>
  <dl class="pairs">
    <div><dt>Address</dt><dd class="mono">${instance.registry_url}<${Copy} text=${instance.registry_url} label="Copy the URL" /></dd></div>
    <div><dt>Team id</dt><dd class="mono">${instance.id}<${Copy} text=${instance.id} label="Copy the id" /></dd></div>
    ${instance.namespace && html`<div><dt>Namespace</dt><dd class="mono">${instance.namespace}</dd></div>`}
    <div><dt>Agent token</dt><dd>${instance.has_agent_token ? "stored, encrypted" : "none; agents are called without a bearer of their own"}<${Button} small kind="quiet" onClick=${onToken}>${instance.has_agent_token ? "Replace" : "Set"}<//></dd></div>
    <div><dt>Added</dt><dd><${Time} at=${instance.created_at} /></dd></div>
  </dl></section>`;

/** @param {{id: string}} props */
function Waiting({ id }) {
  const loaded = useLoaded(() => /** @type {Promise<import("../answers").Deliveries>} */ (get(`/deliveries?instance_id=${encodeURIComponent(id)}`)), [id], ["instance"]);
  return html`<section aria-labelledby="waiting-title" class="stack-small"><div class="row"><h2 id="waiting-title" class="grow">Sync with the libraries</h2></div>
    ${!loaded.data ? html`<${Loading} loaded=${loaded} />`
      : loaded.data.waiting ? html`<${DeliveryTable} deliveries=${loaded.data.deliveries} label="Changes to sync" />` : html`<p class="muted">In sync: nothing waits.</p>`}</section>`;
}
