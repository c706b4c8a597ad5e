// What pages about teams share: whether the libraries know a team, its agents, entries that cannot be used.
import { capital, classes, html } from "../lib.js";
import { path, post } from "../api.js";
import { Banner, Button, HealthBadge, Icon, Pill, healthOf, usePicture } from "./basic.js";
import { useWork } from "./load.js";
import { failed, toast } from "./toast.js";

/** @typedef {import("../answers").InstanceView} Instance */
/** @typedef {import("./basic.js").Tone} Tone */

const STATES = /** @type {Record<string, {tone: Tone, word: string}>} */ ({
  pending: { tone: "busy", word: "Syncing" }, provisioned: { tone: "ok", word: "In sync" }, failed: { tone: "bad", word: "Not in sync" },
});
const NOT_YET = { tone: /** @type {Tone} */ ("idle"), word: "Not in sync yet" };

/** Whether the libraries know the team. @param {{instance: Instance}} props */
export function StatusPill({ instance }) {
  const { tone, word } = STATES[instance.status ?? ""] ?? NOT_YET;
  return html`<${Pill} tone=${tone} title=${instance.status_reason ?? undefined}>${word}<//>`;
}

/** Why the team is not provisioned, with a way to try it at once. @param {{instance: Instance, onDone: (instance: Instance) => void}} props */
export function Unprovisioned({ instance, onDone }) {
  const { busy, run } = useWork();
  if (instance.status === "provisioned" || instance.status === "pending") return null;
  const provision = () => run(async () => {
    const after = /** @type {Instance} */ (await post(path`/pallas/${instance.id}/provision`));
    onDone(after);
    if (after.status === "provisioned") toast(`${after.name} is known to the libraries now.`);
  }, failed);
  const action = html`<${Button} small busy=${busy} icon="rotate-cw" onClick=${provision}>Try now<//>`;
  if (instance.status === "failed")
    return html`<${Banner} tone="bad" action=${action}>The libraries do not know this team yet: ${instance.status_reason ?? "the last try failed"}<//>`;
  return html`<${Banner} tone="idle" action=${action}>The libraries do not know this team yet. They are told in the background.<//>`;
}

/** The picture of an agent, or the first letter of its title. @param {{title: string, icon: string | null, size?: number}} props */
export function AgentIcon({ title, icon, size = 28 }) {
  const picture = usePicture(icon);
  const box = { width: size, height: size };
  if (picture) return html`<img class="agent-tile" ...${picture} ...${box} alt="" loading="lazy" />`;
  return html`<svg class="agent-tile" ...${box} viewBox="0 0 28 28" aria-hidden="true">
    <text x="14" y="14.5" dominant-baseline="central" text-anchor="middle">${[...title.trim()][0]?.toUpperCase() ?? "?"}</text></svg>`;
}

/** @param {{agents: readonly import("../answers").DiscoveredAgent[], full?: boolean}} props */
export const Agents = ({ agents, full = false }) => html`<ul class="agents">${agents.map((agent) => html`
  <li key=${agent.server_id}><${AgentIcon} title=${agent.title} icon=${agent.icon} />
    <div class="grow"><div class="agent-title"><span dir="auto">${agent.title}</span>${agent.health && html`<${HealthBadge} health=${agent.health} />`}</div>
      ${agent.description && html`<p class=${classes("agent-text", !full && "clamp")} dir="auto">${agent.description}</p>`}
      ${full && agent.health?.message && html`<p class=${`agent-reason ${healthOf(agent.health).tone}`} dir="auto">${capital(agent.health.message)}</p>`}
      ${full && html`<${Capabilities} agent=${agent} />`}</div></li>`)}</ul>`;

/** @param {{agent: import("../answers").DiscoveredAgent}} props */
function Capabilities({ agent }) {
  const { model, vision, context_window: window, max_output_tokens: output } = agent.capabilities;
  const facts = [
    agent.server_id, model, vision && "sees images", window && `${window.toLocaleString("en")} tokens of context`,
    output && `${output.toLocaleString("en")} of output`, agent.version && `version ${agent.version}`,
  ];
  return html`<p class="facts">${facts.filter(Boolean).map((fact) => html`<span key=${fact}>${fact}</span>`)}</p>`;
}

/** Entries of the registry that cannot be used. @param {{entries: readonly import("../answers").UnusableEntry[]}} props */
export function Unusable({ entries }) {
  if (!entries.length) return null;
  return html`<details class="unusable"><summary><${Icon} name="triangle-alert" size=${14} />${entries.length === 1 ? "1 entry" : `${entries.length} entries`} that it lists cannot be used</summary>
    <ul>${entries.map((entry) => html`<li key=${entry.name + entry.reason}><code>${entry.name}</code><span>${entry.reason}</span></li>`)}</ul></details>`;
}

/** A URL without its scheme and the path that all registries have. @param {string} url */
export const shortUrl = (url) => url.replace(/^https?:\/\//, "").replace(/\/\.well-known\/mcp\/server\.json$/, "");
