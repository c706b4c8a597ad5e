// The dialog that adds a team by the URL of its registry.
import { html, useId } from "../lib.js";
import { post, sentence } from "../api.js";
import { Banner, Button, Field } from "./basic.js";
import { useWork } from "./load.js";
import { Dialog } from "./dialog.js";

/** @param {{onClose: () => void, onAdded: (instance: import("../answers").InstanceView) => void}} props */
export function AddInstance({ onClose, onAdded }) {
  const id = useId();
  const { busy, fault, run } = useWork();
  const add = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const value = (/** @type {string} */ name) => String(form.get(name) ?? "").trim() || undefined;
    const wanted = { registry_url: value("registry_url"), name: value("name"), agent_token: value("agent_token"), id: value("id") };
    void run(async () => onAdded(await post("/pallas", wanted)));
  };
  const faultOf = (/** @type {string} */ name) => (fault?.field === name ? sentence(fault) : null);
  const elsewhere = fault && !["registry_url", "name", "agent_token", "id"].includes(fault.field ?? "");
  return html`<${Dialog} title="Add a team" onClose=${onClose}><form onSubmit=${add}>
    <div class="dialog-body">
      <${Field} label="Registry URL" for=${`${id}-url`} error=${faultOf("registry_url")}
        hint="Where the team lists its agents. The path /.well-known/mcp/server.json is added if it is missing.">
        <input id=${`${id}-url`} name="registry_url" type="text" inputmode="url" required autofocus spellcheck="false" autocomplete="off"
          placeholder="https://puck.incus:24000/teams/research" aria-describedby=${`${id}-url-hint`} aria-invalid=${Boolean(faultOf("registry_url"))} /><//>
      ${fault?.faults.length ? html`<ul class="faults">${fault.faults.map((each) => html`<li><code>${each.field}</code> ${each.reason}</li>`)}</ul>` : null}
      <${Field} label="Name" for=${`${id}-name`} error=${faultOf("name")} hint="Without one, it is made of the address.">
        <input id=${`${id}-name`} name="name" autocomplete="off" maxlength="200" placeholder="Research" aria-describedby=${`${id}-name-hint`} /><//>
      <${Field} label="Agent token" for=${`${id}-token`} error=${faultOf("agent_token")} hint="Only if its gateway asks for a bearer. It is stored encrypted and never shown again.">
        <input id=${`${id}-token`} name="agent_token" type="password" autocomplete="off" aria-describedby=${`${id}-token-hint`} /><//>
      <details class="more-fields" open=${fault?.field === "id" || undefined}><summary>The libraries have the team already</summary>
        <${Field} label="Team id" for=${`${id}-id`} error=${faultOf("id")} hint="It becomes this team, and its JWT is replaced.">
          <input id=${`${id}-id`} name="id" autocomplete="off" spellcheck="false" placeholder="4b6f3c1e-8f0a-4f6b-9d51-6c2f0e7a9b34" aria-describedby=${`${id}-id-hint`} /><//></details>
      ${elsewhere && html`<${Banner} tone="bad">${sentence(fault)}<//>`}
    </div>
    <footer><${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" type="submit" busy=${busy}>Add team<//></footer>
  </form><//>`;
}
