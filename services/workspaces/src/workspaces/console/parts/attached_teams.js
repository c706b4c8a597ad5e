// Attached Teams: which instances a workspace may use. Nothing changes until Save, which says what happened.
import { html, useState } from "../lib.js";
import { get, path, put, sentence } from "../api.js";
import { Banner, Button, Empty, HealthBadge, Icon } from "./basic.js";
import { StatusPill, counted } from "./instance.js";
import { Loading, useLoaded } from "./load.js";

/** @typedef {import("../api").InstanceView} Instance */
/** @typedef {import("../api").WorkspaceView} Workspace */
/** @typedef {import("../api").Attached} Attached */
/** @typedef {import("../api").AttachedInstance} One */

/** @param {{workspace: Workspace}} props */
export function AttachedTeams({ workspace }) {
  const loaded = useLoaded(() => get("/pallas").then((/** @type {import("../api").Instances} */ found) => found.instances), [], ["instance", "health"]);
  const [attached, setAttached] = useState(workspace.instance_ids);
  const [toggled, setToggled] = useState(/** @type {ReadonlySet<string>} */ (new Set()));
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const [done, setDone] = useState(/** @type {{text: string, warnings: One[]} | null} */ (null));
  const known = loaded.data ?? [];
  const before = new Set(busy || toggled.size ? attached : workspace.instance_ids);
  const chosen = known.filter((each) => before.has(each.id) !== toggled.has(each.id)).map((each) => each.id);
  const toggle = (/** @type {string} */ id) => {
    setAttached([...before]);
    setDone(null);
    setToggled(new Set(toggled.has(id) ? [...toggled].filter((each) => each !== id) : [...toggled, id]));
  };
  const save = async () => {
    setBusy(true);
    setError("");
    try {
      /** @type {Attached} */
      const after = await put(path`/workspaces/${workspace.id}/pallas`, { instance_ids: chosen });
      setAttached(after.instances.map((each) => each.instance_id));
      workspace.instance_ids = after.instances.map((each) => each.instance_id);
      setToggled(new Set());
      setDone(outcome(after, before, known));
    } catch (fault) {
      setError(sentence(fault));
    }
    setBusy(false);
  };
  return html`<section class="card" aria-labelledby="teams-title" id="teams">
    <header><div class="grow"><h2 id="teams-title">Attached Teams</h2><p class="muted">All agents of an attached team can be picked in this workspace, and may read its libraries.</p></div></header>
    ${!loaded.data ? html`<${Loading} loaded=${loaded} />` : !known.length
      ? html`<${Empty} icon="server" title="No instance is registered" action=${html`<${Button} href="/instances">Pallas instances<//>`}>A team is a Pallas instance. Register one first.<//>`
      : html`<${Choice} instances=${known} chosen=${new Set(chosen)} toggled=${toggled} onToggle=${toggle} />
        ${done && html`<${Done} done=${done} />`}${error && html`<${Banner} tone="bad">${error}<//>`}
        <footer class="row wrap"><${Button} kind="primary" busy=${busy} disabled=${!toggled.size} onClick=${save}>Save<//>
          ${toggled.size > 0 && html`<${Button} kind="quiet" onClick=${() => setToggled(new Set())}>Discard<//><span class="muted">${changes(known, before, toggled)}</span>`}</footer>`}
  </section>`;
}

/** @param {{instances: Instance[], chosen: ReadonlySet<string>, toggled: ReadonlySet<string>, onToggle: (id: string) => void}} props */
function Choice({ instances, chosen, toggled, onToggle }) {
  const [wanted, setWanted] = useState("");
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (/** @type {Instance} */ each) => [each.name, each.registry_url, ...each.agents.map((agent) => agent.title)].join(" ").toLowerCase();
  const found = instances.filter((each) => words.every((word) => text(each).includes(word)));
  return html`${instances.length > 5 && html`<div class="search"><${Icon} name="search" /><input type="search" placeholder="Find a team or an agent" aria-label="Find a team or an agent" value=${wanted}
      onInput=${(/** @type {Event} */ event) => setWanted(/** @type {HTMLInputElement} */ (event.target).value)} /></div>`}
    <ul class="choice">${found.map((each) => html`<li key=${each.id} class=${toggled.has(each.id) ? "changed" : ""}><label>
      <input type="checkbox" checked=${chosen.has(each.id)} onChange=${() => onToggle(each.id)} />
      <span class="grow"><span class="agent-title" dir="auto">${each.name}</span>
        <span class="muted clamp">${each.agents.length ? each.agents.map((agent) => agent.title).join(", ") : "no agents known yet"}</span></span>
      <span class="choice-facts">${each.status !== "provisioned" && html`<${StatusPill} instance=${each} />`}<${Worst} instance=${each} /><span class="muted number">${counted(each.agents.length, "agent")}</span></span>
    </label></li>`)}</ul>
    ${!found.length && html`<p class="muted">No team matches.</p>`}`;
}

/** The worst health of its agents, if it is known. @param {{instance: Instance}} props */
function Worst({ instance }) {
  const known = instance.agents.flatMap((agent) => (agent.health ? [agent.health] : []));
  const worst = known.find((each) => each.status === "error") ?? known.find((each) => each.status === "degraded") ?? known.find((each) => each.status === "ok");
  return worst ? html`<${HealthBadge} health=${worst} />` : null;
}

/** @param {{done: {text: string, warnings: One[]}}} props */
const Done = ({ done }) => html`<${Banner} tone=${done.warnings.length ? "warn" : "ok"}>${done.text}
  ${done.warnings.length > 0 && html`<ul class="warnings">${done.warnings.map((each) => html`<li key=${each.instance_id}><b dir="auto">${each.name}</b>: ${each.warning}</li>`)}</ul>`}<//>`;

/** @param {Attached} after @param {ReadonlySet<string>} before @param {Instance[]} known */
function outcome(after, before, known) {
  const now = new Set(after.instances.map((each) => each.instance_id));
  const added = after.instances.filter((each) => !before.has(each.instance_id));
  const gone = known.filter((each) => before.has(each.id) && !now.has(each.id));
  const parts = [];
  if (added.length) parts.push(`Attached ${added.map((each) => `${each.name} (${counted(each.agents, "agent")})`).join(", ")}.`);
  if (gone.length) parts.push(`Detached ${gone.map((each) => each.name).join(", ")}.`);
  return { text: `${parts.join(" ")} Mnemosyne is told now.`.trim(), warnings: after.instances.filter((each) => each.warning) };
}

/** What Save would do. @param {Instance[]} known @param {ReadonlySet<string>} before @param {ReadonlySet<string>} toggled */
function changes(known, before, toggled) {
  const names = (/** @type {boolean} */ was) => known.filter((each) => toggled.has(each.id) && before.has(each.id) === was).map((each) => each.name).join(", ");
  return [names(false) && `attach ${names(false)}`, names(true) && `detach ${names(true)}`].filter(Boolean).join("; ");
}
