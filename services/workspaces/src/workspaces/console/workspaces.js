// The list of all workspaces, which the navigation and several views show: loaded, and loaded again as it changes.
import { signal } from "./lib.js";
import { get, sentence } from "./api.js";
import { on } from "./events.js";
import { workspaces } from "./state.js";

/** Why there is no list, or "". */
export const unlisted = signal("");

/** Load the list. A failure is kept in `unlisted`. */
export async function loadWorkspaces() {
  try {
    workspaces.value = /** @type {import("./answers").WorkspaceList} */ (await get("/workspaces")).workspaces;
    unlisted.value = "";
  } catch (fault) {
    unlisted.value = sentence(fault);
  }
}

for (const kind of ["workspace", "resumed", "resync"]) on(kind, loadWorkspaces);
