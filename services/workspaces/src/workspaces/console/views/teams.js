// Workspace settings: its name, the teams that are attached to it, and its end.
import { counted, html, useState, useTitle, valueTo } from "../lib.js";
import { ApiError, get, patch, path, remove } from "../api.js";
import { navigate } from "../router.js";
import { workspaces } from "../state.js";
import { AttachedTeams } from "../parts/attached_teams.js";
import { Button, Empty, Field, Icon } from "../parts/basic.js";
import { confirm } from "../parts/dialog.js";
import { Libraries } from "../parts/libraries.js";
import { Loading, useLoaded, useWork } from "../parts/load.js";
import { toast } from "../parts/toast.js";

/** @typedef {import("../answers").WorkspaceView} Workspace */

/** @param {{params: {ws: string}}} props */
export default function WorkspaceSettings({ params }) {
  const { ws } = params;
  const loaded = useLoaded(() => /** @type {Promise<Workspace | null>} */ (get(path`/workspaces/${ws}`).catch(gone)), [ws], ["workspace"]);
  const workspace = loaded.data;
  useTitle(`${workspace?.name ?? "Workspace"} settings`);
  if (!workspace) return html`<div class="page"><${Loading} loaded=${loaded} lines=${6} /></div>`;
  if (!workspace.id) return html`<div class="page"><${Empty} icon="layout-grid" title="There is no such workspace" action=${html`<${Button} href="/workspaces">Workspaces<//>`} /></div>`;
  return html`<div class="page">
    <nav aria-label="Breadcrumb" class="crumbs"><a href=${`/workspaces/${ws}`} dir="auto"><${Icon} name="arrow-left" size=${14} />${workspace.name}</a></nav>
    <header><div><h1>Workspace settings</h1><p>The teams whose agents can be talked to here, and what they may read.</p></div></header>
    <${AttachedTeams} key=${ws} workspace=${workspace} onSaved=${loaded.set} />
    <${Libraries} key=${`libraries ${ws}`} workspace=${ws} />
    <${Name} key=${`name ${ws}`} workspace=${workspace} onSaved=${loaded.set} />
    <${End} workspace=${workspace} />
  </div>`;
}

/** A workspace that does not exist has no id. @param {unknown} error */
function gone(error) {
  if (error instanceof ApiError && error.status === 404) return { id: "" };
  throw error;
}

/** @param {{workspace: Workspace, onSaved: (workspace: Workspace) => void}} props */
function Name({ workspace, onSaved }) {
  const [name, setName] = useState(workspace.name);
  const { busy, error, run } = useWork();
  const save = (/** @type {Event} */ event) => {
    event.preventDefault();
    void run(async () => {
      /** @type {Workspace} */
      const after = await patch(path`/workspaces/${workspace.id}`, { name: name.trim() });
      onSaved(after);
      setName(after.name);
      workspaces.value = workspaces.value?.map((each) => (each.id === after.id ? after : each)) ?? null;
      toast("The workspace was renamed.");
    });
  };
  return html`<section class="card" aria-labelledby="name-title"><header><h2 id="name-title" class="grow">Name</h2></header>
    <form class="inline-form" onSubmit=${save}><${Field} label="Name of the workspace" for="name" error=${error}>
      <input id="name" value=${name} required maxlength="200" dir="auto" onInput=${valueTo(setName)} /><//>
      <${Button} type="submit" busy=${busy} disabled=${!name.trim() || name === workspace.name}>Rename<//></form></section>`;
}

/** @param {{workspace: Workspace}} props */
function End({ workspace }) {
  const count = workspace.conversations;
  const what = count === 0 ? "the workspace" : `the workspace and its ${count === 1 ? "conversation" : counted(count, "conversation")}`;
  const drop = () => confirm({
    title: `Delete “${workspace.name}”?`,
    text: `This deletes ${what} for good. Attached teams can no longer read its libraries.`,
    action: "Delete workspace",
    danger: true,
    act: async () => {
      await remove(path`/workspaces/${workspace.id}`);
      workspaces.value = workspaces.value?.filter((each) => each.id !== workspace.id) ?? null;
      toast(`${workspace.name} was deleted.`);
      navigate("/workspaces", { replace: true });
    },
  });
  return html`<section class="card" aria-labelledby="end-title"><header><div class="grow"><h2 id="end-title">Delete the workspace</h2>
    <p class="muted">Deletes ${what} for good.</p></div><${Button} kind="danger" icon="trash-2" onClick=${drop}>Delete<//></header></section>`;
}
