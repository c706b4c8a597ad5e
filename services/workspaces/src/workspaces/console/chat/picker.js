// Which agent gets the next message.
import { html } from "../lib.js";
import { HealthBadge, Icon, healthOf, usePicture } from "../parts/basic.js";
import { Combobox } from "../parts/combobox.js";
import { keyOf } from "./agents.js";

/** @typedef {import("../answers").AgentView} AgentView */

/**
 * The agent's own icon, or a sign in its place.
 * @param {{icon: string | null | undefined, size?: number}} props
 */
export function AgentIcon({ icon, size = 20 }) {
  const picture = usePicture(icon);
  return html`<span class="agent-icon" style=${{ "--size": `${size}px` }}>${picture
    ? html`<img ...${picture} alt="" width=${size} height=${size} />`
    : html`<${Icon} name="bot" size=${Math.round(size * 0.7)} />`}</span>`;
}

const Vision = () => html`<span class="vision" title="Can see images">
  <${Icon} name="eye" size=${14} /><span class="visually-hidden">can see images</span></span>`;

/** @param {{agents: import("./agents.js").Agents, onPicked: () => void}} props */
export function AgentPicker({ agents, onPicked }) {
  const picker = agents.picker.value;
  const agent = agents.agent.value;
  if (!picker) return html`<span class="picker-wait" />`;
  if (!picker.agents.length) return null;
  const options = picker.agents.map((each) => ({ value: keyOf(each), text: each.label, also: `${each.description ?? ""} ${each.server_id}`, agent: each }));
  const label = agent ? `Agent: ${agent.label}, ${healthOf(agent.health).word}` : "Agent";
  const pick = (/** @type {Option} */ option) => {
    agents.pick(option.agent);
    onPicked();
  };
  const shown = agent && html`<${AgentIcon} icon=${agent.icon} />
    <span class="ellipsis" dir="auto">${agent.label}</span><${HealthBadge} health=${agent.health} />`;
  return html`<${Combobox} label=${label} placeholder="Find an agent…" options=${options} value=${agents.picked.value}
    shown=${shown ?? "Pick an agent"} render=${Choice} onPick=${pick} />`;
}

/** @typedef {{agent: AgentView}} Option */

/** @param {Option} option */
const Choice = ({ agent: { icon, label, description, capabilities, health } }) => html`
  <${AgentIcon} icon=${icon} size=${24} />
  <span class="choice grow"><span class="ellipsis" dir="auto">${label}</span>
    ${description && html`<small class="ellipsis" dir="auto">${description}</small>`}</span>
  ${capabilities.vision && html`<${Vision} />`}<${HealthBadge} health=${health} />`;
