// The conversations of a workspace, as events change them.
import { signal } from "../lib.js";
import { get, path, sentence } from "../api.js";
import { on } from "../events.js";

/** @typedef {import("../answers").ConversationView} ConversationView */

/** The first message gives a conversation its title. @param {ConversationView} view */
export const titleOf = (view) => view.title || "New conversation";

/** The later of two states: an answer may be older than an event that came before it.
 * @param {ConversationView} view @param {ConversationView | null | undefined} known */
export const later = (view, known) => (known && known.updated_at > view.updated_at ? known : view);

export class Conversations {
  /** The latest first; null until they are loaded. @type {import("../lib.js").Signal<ConversationView[] | null>} */
  list = signal(null);
  /** @type {import("../lib.js").Signal<string | null>} */
  next = signal(null);
  error = signal("");

  /** @param {string} workspace */
  constructor(workspace) {
    this.workspace = workspace;
    this.ends = [
      on("conversation", (view) => view.workspace_id === workspace && this.put([view])),
      on("conversation_deleted", ({ id }) => this.drop(id)),
      ...["resumed", "resync"].map((kind) => on(kind, () => void this.load())),
    ];
  }

  close() {
    for (const end of this.ends) end();
  }

  /** @param {string | null} [before] of the next page */
  async load(before) {
    try {
      const query = before ? `?before=${encodeURIComponent(before)}` : "";
      /** @type {import("../answers").ConversationPage} */
      const page = await get(path`/workspaces/${this.workspace}/conversations` + query);
      const known = new Map(this.list.value?.map((view) => [view.id, view]));
      if (!before) this.list.value = [];
      this.put(page.conversations.map((view) => later(view, known.get(view.id))));
      this.next.value = page.next;
      this.error.value = "";
    } catch (fault) {
      this.error.value = sentence(fault);
    }
  }

  /** @param {ConversationView[]} views */
  put(views) {
    const fresh = new Set(views.map((view) => view.id));
    const all = [...views, ...(this.list.value ?? []).filter((view) => !fresh.has(view.id))];
    all.sort((a, b) => b.updated_at.localeCompare(a.updated_at));
    // Of branches the one that has changed last. The first one may not know yet that it has others.
    const roots = new Set();
    const root = (/** @type {ConversationView} */ view) => view.root_id ?? view.id;
    this.list.value = all.filter((view) => !roots.has(root(view)) && roots.add(root(view)));
  }

  /** @param {string} id */
  drop(id) {
    this.list.value = this.list.value?.filter((view) => view.id !== id) ?? null;
  }
}
