// All workspaces, and making a new one.
import { counted, html, useEffect, useState, useTitle, valueTo } from "../lib.js";
import { patch, path, post, remove, sentence } from "../api.js";
import { navigate, route } from "../router.js";
import { workspaces } from "../state.js";
import { loadWorkspaces, unlisted } from "../workspaces.js";
import { Banner, Button, Empty, Field, Icon, Skeleton } from "../parts/basic.js";
import { Dialog, confirm } from "../parts/dialog.js";
import { Menu } from "../parts/menu.js";

/** @typedef {import("../answers").WorkspaceView} WorkspaceView */

export default function Workspaces() {
  const [dialog, setDialog] = useState(/** @type {"new" | WorkspaceView | null} */ (null));
  useTitle("Workspaces");
  const all = workspaces.value;
  // The first page is the only workspace, where there is one; the list has an address of its own.
  const only = route.value?.path === "/" && all?.length === 1 && all[0];
  useEffect(() => void (only && navigate(`/workspaces/${only.id}`, { replace: true })), [only]);
  const make = html`<${Button} kind="primary" icon="plus" onClick=${() => setDialog("new")}>New workspace<//>`;
  const again = html`<${Button} small onClick=${loadWorkspaces}>Try again<//>`;
  return html`<div class="page">
    <header><div><h1>Workspaces</h1><p>A workspace has its own conversations, and the teams that are attached to it.</p></div>
      ${all?.length ? make : null}</header>
    ${all === null && (unlisted.value ? html`<${Banner} tone="bad" action=${again}>${unlisted.value}<//>` : html`<${Skeleton} />`)}
    ${all?.length === 0 && html`<${Empty} icon="layout-grid" title="No workspaces yet" action=${make}>
      Make one, attach a team to it, and talk to its agents.<//>`}
    ${all && all.length > 0 && !only && html`<ul class="cards">${all.map((each) => html`
      <${Card} key=${each.id} workspace=${each} rename=${() => setDialog(each)} />`)}</ul>`}
    ${dialog && html`<${NameDialog} workspace=${dialog === "new" ? null : dialog} onClose=${() => setDialog(null)} />`}
  </div>`;
}

/** @param {{workspace: WorkspaceView, rename: () => void}} props */
function Card({ workspace, rename }) {
  const { id, name, conversations, instance_ids: teams } = workspace;
  const drop = () => confirm({
    title: `Delete “${name}”?`, action: "Delete workspace", danger: true,
    text: `This deletes the workspace${conversations ? ` and ${counted(conversations, "conversation")}` : ""} for good. Attached teams can no longer read its libraries.`,
    act: async () => {
      await remove(path`/workspaces/${id}`);
      workspaces.value = (workspaces.value ?? []).filter((each) => each.id !== id);
    },
  });
  return html`<li class="card workspace-card">
    <h2><a class="row-link ellipsis" dir="auto" href=${`/workspaces/${id}`}>${name}</a></h2>
    <${Menu} label=${`More for ${name}`} actions=${[
      { label: "Attached teams", icon: "users", act: () => navigate(`/workspaces/${id}/settings`) },
      { label: "Rename", icon: "pencil", act: rename },
      { label: "Delete", icon: "trash-2", danger: true, act: drop }]} />
    <p class="facts"><span><${Icon} name="users" size=${14} />${counted(teams.length, "team")}</span>
      <span><${Icon} name="message-square" size=${14} />${counted(conversations, "conversation")}</span></p></li>`;
}

/** @param {{workspace: WorkspaceView | null, onClose: () => void}} props */
function NameDialog({ workspace, onClose }) {
  const [name, setName] = useState(workspace?.name ?? "");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setBusy(true);
    try {
      /** @type {WorkspaceView} */
      const saved = workspace ? await patch(path`/workspaces/${workspace.id}`, { name }) : await post("/workspaces", { name });
      const others = (workspaces.value ?? []).filter((each) => each.id !== saved.id);
      workspaces.value = [...others, saved].sort((a, b) => a.name.localeCompare(b.name));
      onClose();
      if (!workspace) navigate(`/workspaces/${saved.id}`);
    } catch (fault) {
      setError(sentence(fault));
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${workspace ? "Rename workspace" : "New workspace"} onClose=${onClose}><form onSubmit=${save}>
    <div class="dialog-body"><${Field} label="Name" for="workspace-name" error=${error}>
      <input id="workspace-name" value=${name} maxlength="200" required autofocus dir="auto" placeholder="Research"
        onInput=${valueTo(setName)} /><//></div>
    <footer><${Button} onClick=${onClose}>Cancel<//>
      <${Button} kind="primary" type="submit" busy=${busy} disabled=${!name.trim()}>
        ${workspace ? "Rename" : "Create"}<//></footer></form><//>`;
}
