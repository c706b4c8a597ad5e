// Dialogs of an instance: its name, its agent token, and its end.
import { html, useId, useState } from "../lib.js";
import { patch, path, remove, sentence } from "../api.js";
import { Banner, Button, Field } from "./basic.js";
import { Dialog } from "./dialog.js";
import { toast } from "./toast.js";

/** @typedef {import("../answers").InstanceView} Instance */
/** @typedef {{instance: Instance, onClose: () => void, onDone: (after: Instance) => void}} Props */

/** Runs an action of a dialog, and has its state. @param {() => Promise<unknown>} act @param {() => void} onClose */
function useAction(act, onClose) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const run = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      await act();
      onClose();
    } catch (fault) {
      setError(sentence(fault));
      setBusy(false);
    }
  };
  return { busy, error, run };
}

/** @param {Event} event */
const textOf = (event) => /** @type {HTMLInputElement} */ (event.target).value;

/** @param {Props} props */
export function RenameDialog({ instance, onClose, onDone }) {
  const id = useId();
  const [name, setName] = useState(instance.name);
  const { busy, error, run } = useAction(async () => onDone(await patch(path`/pallas/${instance.id}`, { name })), onClose);
  return html`<${Dialog} title="Rename the instance" onClose=${onClose}><form onSubmit=${run}>
    <div class="dialog-body"><${Field} label="Name" for=${id} error=${error} hint="It stands in front of each of its agents, and Mnemosyne gets it too.">
      <input id=${id} value=${name} required maxlength="200" autofocus dir="auto" onInput=${(/** @type {Event} */ event) => setName(textOf(event))} /><//></div>
    <footer><${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" type="submit" busy=${busy} disabled=${!name.trim()}>Rename<//></footer></form><//>`;
}

/** @param {Props} props */
export function AgentTokenDialog({ instance, onClose, onDone }) {
  const id = useId();
  const [token, setToken] = useState("");
  const save = async (/** @type {string | null} */ value) => {
    onDone(await patch(path`/pallas/${instance.id}`, { agent_token: value }));
    toast(value ? "The agent token is stored." : "The agent token was removed.");
  };
  const { busy, error, run } = useAction(() => save(token), onClose);
  const drop = useAction(() => save(null), onClose);
  return html`<${Dialog} title="Agent token" onClose=${onClose}><form onSubmit=${run}>
    <div class="dialog-body"><${Field} label="Token" for=${id} error=${error || drop.error}
      hint="The bearer with which this console calls the agents, if their gateway asks for one. It is stored encrypted and never shown again.">
      <input id=${id} type="password" value=${token} required autofocus autocomplete="off" onInput=${(/** @type {Event} */ event) => setToken(textOf(event))} /><//></div>
    <footer>${instance.has_agent_token && html`<${Button} kind="danger" busy=${drop.busy} onClick=${drop.run}>Remove<//><span class="grow" />`}
      <${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" type="submit" busy=${busy} disabled=${!token.trim()}>Store<//></footer></form><//>`;
}

/** @param {{instance: Instance, onClose: () => void, onDone: () => void}} props */
export function DeleteDialog({ instance, onClose, onDone }) {
  const id = useId();
  const [typed, setTyped] = useState("");
  const { busy, error, run } = useAction(async () => {
    await remove(path`/pallas/${instance.id}`);
    toast(`${instance.name} was deleted.`);
    onDone();
  }, onClose);
  return html`<${Dialog} title=${`Delete ${instance.name}?`} onClose=${onClose}><form onSubmit=${run}>
    <div class="dialog-body"><p>Its agents leave all workspaces, its team is retired in Mnemosyne, and its token stops working. This cannot be undone: registered anew, it is another team.</p>
      <${Field} label=${html`Type <b dir="auto">${instance.name}</b> to confirm`} for=${id}>
        <input id=${id} value=${typed} autocomplete="off" autofocus dir="auto" onInput=${(/** @type {Event} */ event) => setTyped(textOf(event))} /><//>
      ${error && html`<${Banner} tone="bad">${error}<//>`}</div>
    <footer><${Button} onClick=${onClose}>Cancel<//><${Button} kind="danger" type="submit" busy=${busy} disabled=${typed.trim() !== instance.name.trim()}>Delete instance<//></footer></form><//>`;
}
