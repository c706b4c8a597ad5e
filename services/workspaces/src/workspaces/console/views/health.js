// Health: every agent of every team, grouped by team, as it was when it was last asked.
import { capital, html, useEffect, useTitle } from "../lib.js";
import { get } from "../api.js";
import { on } from "../events.js";
import { Empty, HealthBadge, healthOf } from "../parts/basic.js";
import { Loading, useLoaded } from "../parts/load.js";
import { Time } from "../parts/time.js";
import { ORDER, placeOf, worstOf } from "../parts/worst.js";

/** @typedef {import("../answers").AgentStatus} Status */
/** @typedef {import("../answers").AgentStatuses} Statuses */

export default function HealthPage() {
  const loaded = useLoaded(() => /** @type {Promise<Statuses>} */ (get("/agents/status")), [], ["agents", "instance"]);
  const { data, set } = loaded;
  useTitle("Health");
  useEffect(() => on("health", (/** @type {Status} */ status) => {
    if (data) set({ ...data, agents: data.agents.map((each) => (same(each, status) ? status : each)) });
  }), [data]);
  const groups = [...Map.groupBy(data?.agents ?? [], (each) => each.instance_id)].sort(([, one], [, other]) => worstOf(one) - worstOf(other));
  return html`<div class="page">
    <header><div><h1>Health</h1><p>All agents of all teams. ${data && `They are asked every ${data.interval} s.`}</p></div></header>
    ${!data ? html`<${Loading} loaded=${loaded} lines=${6} />` : !data.agents.length
      ? html`<${Empty} icon="heart-pulse" title="No agents yet">Add a team, and its agents are checked from then on.<//>`
      : html`<${Counts} agents=${data.agents} />${groups.map(([id, agents]) => html`<${Group} key=${id} id=${id} agents=${agents} />`)}`}
  </div>`;
}

/** @param {Status} one @param {Status} other */
const same = (one, other) => one.instance_id === other.instance_id && one.server_id === other.server_id;

/** @param {{agents: readonly Status[]}} props */
const Counts = ({ agents }) => html`<p class="counts" role="status">${ORDER.map((status) => {
  const some = agents.filter((each) => each.health.status === status);
  const { tone, word } = healthOf(some[0]?.health);
  return some.length > 0 && html`<span key=${status} class=${tone}><i class="dot" /><b>${some.length}</b> ${word.toLowerCase()}</span>`;
})}</p>`;

/** @param {{id: string, agents: readonly Status[]}} props */
const Group = ({ id, agents }) => html`<section class="card flush" aria-labelledby=${`team-${id}`}>
  <header><h2 id=${`team-${id}`} class="grow" dir="auto"><a href=${`/teams/${encodeURIComponent(id)}`}>${agents[0]?.instance}</a></h2></header>
  <ul class="statuses">${agents.toSorted(worstFirst).map((each) => html`<li key=${each.server_id}>
    <div class="grow"><div class="row"><span class="agent-title" dir="auto">${each.title}</span><code class="faint">${each.server_id}</code></div>
      ${each.health.message && html`<p class=${each.health.status === "error" ? "fault" : "muted"} dir="auto">${capital(each.health.message)}</p>`}</div>
    <div class="since"><${HealthBadge} health=${{ ...each.health, message: null }} word /><span class="faint"><${Time} at=${each.health.at} none="" /></span></div></li>`)}</ul></section>`;

/** @param {Status} one @param {Status} other */
const worstFirst = (one, other) =>
  placeOf(one) - placeOf(other) || one.title.localeCompare(other.title, undefined, { numeric: true });
