// Global settings, Pallas instances: all that are registered, with their agents and the state of their team.
import { counted, html, useState, useTitle } from "../lib.js";
import { get } from "../api.js";
import { navigate } from "../router.js";
import { Banner, Button, Empty, Pill } from "../parts/basic.js";
import { AddInstance } from "../parts/add_instance.js";
import { Agents, StatusPill, Unprovisioned, Unusable, shortUrl } from "../parts/instance.js";
import { Loading, useLoaded } from "../parts/load.js";
import { Time } from "../parts/time.js";
import { toast } from "../parts/toast.js";
import { fewOf } from "../parts/worst.js";

/** @typedef {import("../answers").InstanceView} Instance */

export default function InstancesView() {
  const loaded = useLoaded(() => get("/pallas").then((/** @type {import("../answers").Instances} */ found) => found.instances), [], ["instance", "health"]);
  const [adding, setAdding] = useState(false);
  useTitle("Pallas instances");
  const add = html`<${Button} kind="primary" icon="plus" onClick=${() => setAdding(true)}>Add instance<//>`;
  const added = (/** @type {Instance} */ instance) => {
    if (loaded.data?.some((each) => each.id === instance.id)) toast(`${instance.name} is registered already.`);
    navigate(hrefOf(instance));
  };
  const replace = (/** @type {Instance} */ after) => loaded.data && loaded.set(loaded.data.map((each) => (each.id === after.id ? after : each)));
  return html`<div class="page">
    <header class="page-head"><div class="grow"><h1>Pallas instances</h1>
      <p>Registries whose agents can be attached to workspaces. Each instance is one team in Mnemosyne.</p></div>${loaded.data?.length ? add : null}</header>
    ${!loaded.data ? html`<${Loading} loaded=${loaded} />` : !loaded.data.length ? html`<${Empty} icon="server" title="No instance is registered" action=${add}>
        Add the URL of a registry. Its agents appear here, and can then be attached to workspaces.<//>`
      : html`<div class="cards">${loaded.data.map((instance) => html`<${Card} key=${instance.id} instance=${instance} onDone=${replace} />`)}</div>`}
    ${adding && html`<${AddInstance} onClose=${() => setAdding(false)} onAdded=${added} />`}
  </div>`;
}

/** Agents of one instance. Its own page has all. */
const MOST = 6;

/** @param {Instance} instance */
const hrefOf = (instance) => `/instances/${encodeURIComponent(instance.id)}`;

/** @param {{instance: Instance, onDone: (after: Instance) => void}} props */
const Card = ({ instance, onDone }) => html`<article class="card instance" aria-label=${instance.name}>
  <header><div class="grow"><h2><a href=${hrefOf(instance)} dir="auto">${instance.name}</a></h2>
      <p class="muted url">${shortUrl(instance.registry_url)}</p></div>
    ${instance.jwt === "ready" && html`<${Pill} tone="warn" icon="key-round" title="It was not shown yet">JWT ready<//>`}
    <${StatusPill} instance=${instance} /></header>
  <${Unprovisioned} instance=${instance} onDone=${onDone} />
  ${instance.drift && html`<${Banner} tone="warn">${instance.drift}<//>`}
  ${instance.last_fetch_error && html`<${Banner} tone="warn" icon="wifi-off">The registry could not be read: ${instance.last_fetch_error}<//>`}
  ${instance.agents.length ? html`<${Agents} agents=${fewOf(instance.agents, MOST)} />` : html`<p class="muted">No agents are known yet.</p>`}
  ${instance.agents.length > MOST && html`<p><a href=${hrefOf(instance)}>All ${counted(instance.agents.length, "agent")}</a></p>`}
  <${Unusable} entries=${instance.unusable} />
  <footer class="muted">${counted(instance.agents.length, "agent")} · attached to ${counted(instance.workspace_ids.length, "workspace")} · fetched <${Time} at=${instance.last_fetched_at} /></footer>
</article>`;
