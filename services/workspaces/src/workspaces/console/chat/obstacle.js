// What stands in the way of a message: no agents, or one that is not well.
import { capital, html } from "../lib.js";
import { Banner, Button } from "../parts/basic.js";

/** @param {import("./agents.js").Agents} agents */
export function placeholder(agents) {
  const agent = agents.agent.value;
  if (!agent) return agents.picker.value ? "No agent to talk to" : "";
  if (agent.health.status !== "error") return `Message ${agent.title}`;
  return `${agent.title} is unhealthy${agent.health.message ? `: ${agent.health.message}` : ""}`;
}

/** Why the agent cannot be used, or not well. @param {{agents: import("./agents.js").Agents}} props */
export function Obstacle({ agents }) {
  const { empty } = agents.picker.value ?? {};
  const again = html`<${Button} small onClick=${() => agents.load()}>Try again<//>`;
  if (!agents.picker.value && agents.error.value) return html`<${Banner} tone="bad" action=${again}>${agents.error.value}<//>`;
  const agent = agents.agent.value;
  if (empty) return html`<${Banner} icon="users"><${NoAgents} empty=${empty} /><//>`;
  const { status, message } = agent?.health ?? {};
  if (status !== "degraded" && status !== "error") return null;
  const [tone, word] = status === "error" ? ["bad", "unhealthy"] : ["warn", "degraded"];
  return html`<${Banner} tone=${tone}><span dir="auto"><strong>${agent?.title} is ${word}.</strong> ${capital(message ?? "")}</span><//>`;
}

const LINKED = "workspace settings → Attached Teams";

/** The sentence for a workspace without agents, with its link inside. @param {{empty: import("../answers").EmptyPicker}} props */
function NoAgents({ empty }) {
  const [before, after] = empty.text.split(LINKED);
  if (after === undefined) return html`<p><a href=${empty.link}>${empty.text}</a></p>`;
  return html`<p>${before}<a href=${empty.link}>${LINKED}</a>${after}</p>`;
}
