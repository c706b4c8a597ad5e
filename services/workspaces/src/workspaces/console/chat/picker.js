// Which agent gets the next message.
import { html, useState } from "../lib.js";
import { HealthBadge, Icon, healthOf } from "../parts/basic.js";
import { Combobox } from "../parts/combobox.js";
import { keyOf } from "./agents.js";

/** @typedef {import("../answers").AgentView} AgentView */

/** The agent's own icon, or a sign in its place. @param {{icon: string | null | undefined, size?: number}} props */
export function AgentIcon({ icon, size = 20 }) {
  const [broken, setBroken] = useState(/** @type {string | null} */ (null));
  return html`<span class="agent-icon" style=${{ "--size": `${size}px` }}>${icon && icon !== broken
    ? html`<img src=${icon} alt="" width=${size} height=${size} onError=${() => setBroken(icon)} />` : html`<${Icon} name="bot" size=${Math.round(size * 0.7)} />`}</span>`;
}

const Vision = () => html`<span class="vision" title="Can see images"><${Icon} name="eye" size=${14} /><span class="visually-hidden">can see images</span></span>`;

/** @param {{agents: import("./agents.js").Agents}} props */
export function AgentPicker({ agents }) {
  const picker = agents.picker.value;
  const agent = agents.agent.value;
  if (!picker) return html`<span class="picker-wait" />`;
  if (!picker.agents.length) return null;
  const options = picker.agents.map((each) => ({ value: keyOf(each), text: `${each.label} ${each.description ?? ""}`, agent: each }));
  const { word } = healthOf(agent?.health);
  return html`<${Combobox} up label=${agent ? `Agent: ${agent.label}, ${word}` : "Agent"} placeholder="Find an agent…" options=${options} value=${agents.picked.value}
    onPick=${(/** @type {{agent: AgentView}} */ option) => agents.pick(option.agent)} render=${(/** @type {{agent: AgentView}} */ option) => html`<${Choice} agent=${option.agent} />`}
    shown=${agent ? html`<${AgentIcon} icon=${agent.icon} /><span class="ellipsis" dir="auto">${agent.label}</span><${HealthBadge} health=${agent.health} />` : "Pick an agent"} />`;
}

/** @param {{agent: AgentView}} props */
const Choice = ({ agent }) => html`<${AgentIcon} icon=${agent.icon} size=${24} />
  <span class="choice grow"><span class="ellipsis" dir="auto">${agent.label}</span>${agent.description && html`<small class="ellipsis" dir="auto">${agent.description}</small>`}</span>
  ${agent.capabilities.vision && html`<${Vision} />`}<${HealthBadge} health=${agent.health} />`;

const LINKED = "workspace settings → Attached Teams";

/** The sentence for a workspace without agents, with its link inside. @param {{empty: import("../answers").EmptyPicker}} props */
export function NoAgents({ empty }) {
  const [before, after] = empty.text.split(LINKED);
  return after === undefined ? html`<p><a href=${empty.link}>${empty.text}</a></p>` : html`<p>${before}<a href=${empty.link}>${LINKED}</a>${after}</p>`;
}
