// Executing a turn again, with another model or another agent of its team.
import { capital, html, useId, useState, valueTo } from "../../lib.js";
import { path, post, sentence } from "../../api.js";
import { navigate } from "../../router.js";
import { Banner, Button, Field } from "../basic.js";
import { Dialog } from "../dialog.js";
import { useWork } from "../load.js";
import { useCallable } from "./filters.js";

/** @typedef {import("../../answers").TurnView} TurnView */

/** Not for the second click of a double click: the first one may have found that the person must confirm. @param {MouseEvent} event */
const firstOnly = (event) => event.detail > 1 && event.preventDefault();

/** @param {{view: TurnView, onClose: () => void}} props */
export function RunAgain({ view, onClose }) {
  const id = useId();
  const { turn } = view;
  const { models, agents } = useCallable();
  const [agent, setAgent] = useState(turn.agent);
  const [model, setModel] = useState("");
  const { busy, fault, run, clear } = useWork();
  const sure = fault?.code === "needs_confirmation";
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    void run(async () => {
      /** @type {import("../../answers").Replayed} */
      const made = await post(path`/turns/${turn.id}/again`, {
        ...(model && { model }), ...(agent !== turn.agent && { agent }), ...(sure && { confirmed: true }),
      });
      navigate(`/turns/${encodeURIComponent(turn.id)}/compare/${encodeURIComponent(made.turn_id)}`);
    });
  };
  const change = (/** @type {(value: string) => void} */ set) => valueTo((value) => {
    set(value);
    clear();
  });
  const faultOf = (/** @type {string} */ name) => (fault?.field === name ? sentence(fault) : null);
  const others = agents.filter((each) => each.team === turn.team && each.agent !== turn.agent);
  return html`<${Dialog} title="Run again" onClose=${onClose}><form onSubmit=${submit}>
    <div class="dialog-body"><p class="muted">The same request becomes a turn of its own. Afterwards both are shown side by side.</p>
      <${Field} label="Agent" for=${`${id}-agent`} error=${faultOf("agent")}><select id=${`${id}-agent`} value=${agent} onChange=${change(setAgent)}>
        <option value=${turn.agent}>${turn.agent}</option>${others.map((each) => html`<option key=${each.agent} value=${each.agent}>${each.agent}</option>`)}</select><//>
      <${Field} label="Model" for=${`${id}-model`} error=${faultOf("model")}><select id=${`${id}-model`} value=${model} onChange=${change(setModel)}>
        <option value="">The agent's own</option>${models.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}</select><//>
      ${fault && !["agent", "model"].includes(fault.field ?? "") && html`<${Banner} tone=${sure ? "warn" : "bad"}>${capital(fault.message.replace(`turn ${turn.id}`, "this turn"))}<//>`}</div>
    <footer><${Button} onClick=${onClose}>Cancel<//><${Button} kind=${sure ? "danger" : "primary"} type="submit" busy=${busy} autofocus onClick=${firstOnly}>${sure ? "Run anyway" : "Run again"}<//></footer>
  </form><//>`;
}
