// Attached Teams: which instances a workspace may use. Nothing changes until Save, which says what happened.
import { counted, html, useEffect, useRef, useState, valueTo } from "../lib.js";
import { get, path, put } from "../api.js";
import { Banner, Button, Empty, HealthBadge, Icon } from "./basic.js";
import { StatusPill } from "./instance.js";
import { Loading, useLoaded, useWork } from "./load.js";

/** @typedef {import("../answers").InstanceView} Instance */
/** @typedef {import("../answers").WorkspaceView} Workspace */
/** @typedef {import("../answers").Attached} Attached */
/** @typedef {import("../answers").AttachedInstance} One */

/** @param {{workspace: Workspace, onSaved: (workspace: Workspace) => void}} props */
export function AttachedTeams({ workspace, onSaved }) {
  const loaded = useLoaded(() => get("/pallas").then((/** @type {import("../answers").Instances} */ found) => found.instances), [], ["instance", "health"]);
  const [wishes, setWishes] = useState(/** @type {ReadonlyMap<string, boolean>} */ (new Map()));
  const { busy, error, run } = useWork();
  const [done, setDone] = useState(/** @type {{text: string, warnings: One[]} | null} */ (null));
  const self = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => void (location.hash === "#attached-teams" && self.current?.scrollIntoView()), [loaded.data === null]);
  const known = loaded.data ?? [];
  const before = new Set(workspace.instance_ids);
  const chosen = new Set(known.map((each) => each.id).filter((id) => wishes.get(id) ?? before.has(id)));
  const attach = known.filter((each) => chosen.has(each.id) && !before.has(each.id));
  const detach = known.filter((each) => !chosen.has(each.id) && before.has(each.id));
  const changed = attach.length + detach.length > 0;
  const toggle = (/** @type {string} */ id) => {
    setDone(null);
    setWishes(new Map(wishes).set(id, !chosen.has(id)));
  };
  const save = () => run(async () => {
    /** @type {Attached} */
    const after = await put(path`/workspaces/${workspace.id}/pallas`, { instance_ids: [...chosen] });
    onSaved({ ...workspace, instance_ids: after.instances.map((each) => each.instance_id) });
    setWishes(new Map());
    setDone(outcome(after, attach, detach));
  });
  return html`<section class="card" aria-labelledby="teams-title" id="attached-teams" ref=${self}>
    <header><div class="grow"><h2 id="teams-title">Attached Teams</h2><p class="muted">All agents of an attached team can be picked in this workspace, and may read its libraries.</p></div></header>
    ${!loaded.data ? html`<${Loading} loaded=${loaded} />` : !known.length
      ? html`<${Empty} icon="users" title="There is no team yet" action=${html`<${Button} href="/teams" icon="plus">Add a team<//>`}>Add one first, by the address of its registry.<//>`
      : html`<${Choice} instances=${known} chosen=${chosen} before=${before} onToggle=${toggle} />
        ${done && html`<${Done} done=${done} />`}${error && html`<${Banner} tone="bad">${error}<//>`}
        <footer class="row wrap"><${Button} kind="primary" busy=${busy} disabled=${!changed} onClick=${save}>Save<//>
          ${changed && html`<${Button} kind="quiet" onClick=${() => setWishes(new Map())}>Discard<//><span class="muted">Will ${[inWords("attach", attach), inWords("detach", detach)].filter(Boolean).join("; ")}.</span>`}</footer>`}
  </section>`;
}

/** @param {string} verb @param {readonly Instance[]} instances */
const inWords = (verb, instances) => instances.length > 0 && `${verb} ${instances.map((each) => each.name).join(", ")}`;

/** @param {{instances: Instance[], chosen: ReadonlySet<string>, before: ReadonlySet<string>, onToggle: (id: string) => void}} props */
function Choice({ instances, chosen, before, onToggle }) {
  const [wanted, setWanted] = useState("");
  const words = wanted.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (/** @type {Instance} */ each) => [each.name, each.registry_url, ...each.agents.map((agent) => agent.title)].join(" ").toLowerCase();
  const found = instances.filter((each) => words.every((word) => text(each).includes(word)));
  return html`${instances.length > 5 && html`<div class="search"><${Icon} name="search" /><input type="search" placeholder="Find a team or an agent" aria-label="Find a team or an agent" value=${wanted}
      onInput=${valueTo(setWanted)} /></div>`}
    <ul class="team-choice">${found.map((each) => html`<li key=${each.id} class=${chosen.has(each.id) !== before.has(each.id) ? "changed" : ""}><label>
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

/** @param {Attached} after @param {Instance[]} attached @param {Instance[]} detached */
function outcome(after, attached, detached) {
  const agents = new Map(after.instances.map((each) => [each.instance_id, counted(each.agents, "agent")]));
  const parts = [];
  if (attached.length) parts.push(`Attached ${attached.map((each) => `${each.name} (${agents.get(each.id)})`).join(", ")}.`);
  if (detached.length) parts.push(`Detached ${detached.map((each) => each.name).join(", ")}.`);
  return { text: `${parts.join(" ")} The libraries are told in the background.`, warnings: after.instances.filter((each) => each.warning) };
}
