// Dialogs of a team: its name, its agent token, and its end.
import { html, useId, useState, valueTo } from "../lib.js";
import { patch, path, remove } from "../api.js";
import { Banner, Button, Field } from "./basic.js";
import { useWork } from "./load.js";
import { Dialog } from "./dialog.js";
import { toast } from "./toast.js";

/** @typedef {import("../answers").InstanceView} Instance */
/** @typedef {{instance: Instance, onClose: () => void, onDone: (after: Instance) => void}} Props */

/** Runs an action of a dialog, and has its state. @param {() => Promise<unknown>} act @param {() => void} onClose */
function useAction(act, onClose) {
  const { busy, error, fault, run } = useWork();
  const start = (/** @type {Event} */ event) => {
    event.preventDefault();
    void run(() => act().then(onClose));
  };
  return { busy, error, field: fault?.field ?? "", run: start };
}

/** @param {Props} props */
export function EditDialog({ instance, onClose, onDone }) {
  const id = useId();
  const [name, setName] = useState(instance.name);
  const [url, setUrl] = useState(instance.registry_url);
  const changed = { ...(name.trim() !== instance.name && { name: name.trim() }), ...(url.trim() !== instance.registry_url && { registry_url: url.trim() }) };
  const { busy, error, field, run } = useAction(async () => onDone(await patch(path`/pallas/${instance.id}`, changed)), onClose);
  return html`<${Dialog} title="Edit the team" onClose=${onClose}><form onSubmit=${run}>
    <div class="dialog-body">
      <${Field} label="Name" for=${`${id}-name`} error=${field === "name" && error} hint="It stands in front of each of its agents.">
        <input id=${`${id}-name`} value=${name} required maxlength="200" autofocus dir="auto" onInput=${valueTo(setName)} /><//>
      <${Field} label="Registry URL" for=${`${id}-url`} error=${field === "registry_url" && error} hint="For a team that has moved. It stays the same team, with its JWT and its workspaces.">
        <input id=${`${id}-url`} value=${url} required spellcheck="false" inputmode="url" onInput=${valueTo(setUrl)} /><//>
      ${error && !["name", "registry_url"].includes(field) && html`<${Banner} tone="bad">${error}<//>`}</div>
    <footer><${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" type="submit" busy=${busy} disabled=${!name.trim() || !url.trim() || !Object.keys(changed).length}>Save<//></footer></form><//>`;
}

/** @param {Props} props */
export function AgentTokenDialog({ instance, onClose, onDone }) {
  const id = useId();
  const [token, setToken] = useState("");
  const save = async (/** @type {string} */ value) => {
    onDone(await patch(path`/pallas/${instance.id}`, { agent_token: value }));
    toast(value ? "The agent token is stored." : "The agent token was removed.");
  };
  const { busy, error, run } = useAction(() => save(token), onClose);
  const drop = useAction(() => save(""), onClose);
  return html`<${Dialog} title="Agent token" onClose=${onClose}><form onSubmit=${run}>
    <div class="dialog-body"><${Field} label="Token" for=${id} error=${error || drop.error}
      hint="The bearer with which this console calls the agents, if their gateway asks for one. It is stored encrypted and never shown again.">
      <input id=${id} type="password" value=${token} required autofocus autocomplete="off" onInput=${valueTo(setToken)} /><//></div>
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
    <div class="dialog-body"><p>Its agents leave all workspaces, it reads no library any more, and its JWT stops working. This cannot be undone: adding it again makes another team.</p>
      <${Field} label=${html`Type <b dir="auto">${instance.name}</b> to confirm`} for=${id}>
        <input id=${id} value=${typed} autocomplete="off" autofocus dir="auto" onInput=${valueTo(setTyped)} /><//>
      ${error && html`<${Banner} tone="bad">${error}<//>`}</div>
    <footer><${Button} onClick=${onClose}>Cancel<//><${Button} kind="danger" type="submit" busy=${busy} disabled=${typed.trim() !== instance.name.trim()}>Delete team<//></footer></form><//>`;
}
