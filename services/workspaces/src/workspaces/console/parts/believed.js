// What the libraries (Mnemosyne, in the contracts) know about a team, beside what is attached here.
import { html } from "../lib.js";
import { path, post } from "../api.js";
import { workspaces } from "../state.js";
import { Banner, Button, Icon } from "./basic.js";
import { useWork } from "./load.js";
import { failed } from "./toast.js";
import { Time } from "./time.js";

/** @typedef {import("../answers").InstanceView} Instance */

/** @param {{instance: Instance, onChanged: (instance: Instance) => void}} props */
export function BelievedCard({ instance, onChanged }) {
  const { busy, run } = useWork();
  const check = () => run(async () => onChanged(await post(path`/pallas/${instance.id}/check`)), failed);
  const { believed, drift } = instance;
  const rows = rowsOf(instance);
  return html`<section class="card" aria-labelledby="believed-title">
    <header><div class="grow"><h2 id="believed-title">Libraries</h2>
      <p class="muted">${believed ? html`Asked <${Time} at=${believed.at} />` : "Not asked yet"} · ${instance.pushed_at ? html`last told <${Time} at=${instance.pushed_at} />` : "no workspaces told yet"}</p></div>
      <${Button} icon="refresh-cw" busy=${busy} onClick=${check}>Ask now<//></header>
    ${believed?.error && html`<${Banner} tone="warn">Since then it could not be compared: ${believed.error}.<//>`}
    ${drift ? html`<${Banner} tone="warn">${drift}<//>` : believed && !believed.error && html`<p class="lead ok"><${Icon} name="circle-check" />${agreement(believed)}</p>`}
    ${believed?.active === null && html`<p class="muted">They know no such team.</p>`}
    ${rows.length > 0 && html`<table class="beliefs"><thead><tr><th scope="col">Workspace</th><th scope="col">Attached here</th><th scope="col">Read from libraries</th></tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${row.id} class=${row.there !== null && row.here !== row.there ? "differs" : ""}>
        <th scope="row" dir="auto">${row.name}</th><td><${YesNo} yes=${row.here} /></td><td><${YesNo} yes=${row.there} /></td></tr>`)}</tbody></table>`}
  </section>`;
}

/** @param {import("../answers").Believed} believed */
const agreement = (believed) =>
  believed.active === false ? "The libraries have retired this team, as they should." : "The team reads exactly the libraries of the workspaces it is attached to.";

/** @param {{yes: boolean | null}} props */
const YesNo = ({ yes }) => yes === null ? html`<span class="muted">not known</span>`
  : html`<span class=${yes ? "yes" : "no"}><${Icon} name=${yes ? "check" : "x"} size=${14} />${yes ? "yes" : "no"}</span>`;

/** One row for each workspace that either side names. @param {Instance} instance */
function rowsOf(instance) {
  const believed = instance.believed;
  const ids = [...new Set([...instance.workspace_ids, ...(believed?.workspace_ids ?? [])])];
  const names = new Map((workspaces.value ?? []).map((each) => [each.id, each.name]));
  return ids.map((id) => ({
    id, name: names.get(id) ?? id, here: instance.workspace_ids.includes(id), there: believed ? believed.workspace_ids.includes(id) : null,
  }));
}
