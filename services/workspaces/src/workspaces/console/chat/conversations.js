// The conversations of a workspace: their list, and making, renaming and deleting them.
import { html, signal, useEffect, useRef, useState } from "../lib.js";
import { get, patch, path, remove, sentence } from "../api.js";
import { on } from "../events.js";
import { navigate } from "../router.js";
import { Button, Field, Icon, IconButton, Skeleton, Spinner } from "../parts/basic.js";
import { Dialog, confirm } from "../parts/dialog.js";
import { Menu } from "../parts/menu.js";
import { failed } from "../parts/toast.js";

/** @typedef {import("../answers").ConversationView} ConversationView */

/** The first message gives a conversation its title. @param {ConversationView} view */
export const titleOf = (view) => view.title || "New conversation";

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
      const page = /** @type {import("../answers").ConversationPage} */ (await get(path`/workspaces/${this.workspace}/conversations` + query));
      if (!before) this.list.value = [];
      this.put(page.conversations);
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
    this.list.value = all.sort((a, b) => b.updated_at.localeCompare(a.updated_at));
  }

  /** @param {string} id */
  drop(id) {
    this.list.value = this.list.value?.filter((view) => view.id !== id) ?? null;
  }
}

/** @param {{conversations: Conversations, current: string | undefined, onPick: () => void}} props */
export function ConversationList({ conversations, current, onPick }) {
  const more = useRef(/** @type {HTMLElement | null} */ (null));
  const { workspace, list, next } = conversations;
  useEffect(() => {
    if (!more.current) return undefined;
    const seen = new IntersectionObserver(([entry]) => entry?.isIntersecting && next.value && void conversations.load(next.value));
    seen.observe(more.current);
    return () => seen.disconnect();
  }, [next.value]);
  const all = list.value;
  return html`<div class="conversation-scroll">
    ${!all ? html`<${Skeleton} lines=${5} />` : grouped(all).map(([title, some]) => html`<section key=${title} aria-label=${title}><h3>${title}</h3>
      <ul>${some.map((view) => html`<li key=${view.id} class=${view.id === current ? "current" : ""}>
        <a href=${`/workspaces/${workspace}/conversations/${view.id}`} aria-current=${view.id === current ? "page" : undefined} onClick=${onPick}>
          <span class="ellipsis grow" dir="auto">${titleOf(view)}</span>${view.answering && html`<span title="An agent is at work"><${Spinner} size=${12} /><span class="visually-hidden">an agent is at work</span></span>`}</a>
        <${ConversationMenu} view=${view} current=${view.id === current} /></li>`)}</ul></section>`)}
    ${all && !all.length && html`<p class="faint none">No conversations yet.</p>`}
    ${next.value && html`<div class="older" ref=${more}><${Spinner} /></div>`}</div>`;
}

/** Rename and delete. @param {{view: ConversationView, current: boolean}} props */
export function ConversationMenu({ view, current }) {
  const [renaming, setRenaming] = useState(false);
  const drop = () => confirm({
    title: "Delete this conversation?", action: "Delete", danger: true,
    text: `“${titleOf(view)}” and all its messages are deleted for good.`,
    act: async () => {
      await remove(path`/conversations/${view.id}`);
      if (current) navigate(`/workspaces/${view.workspace_id}`, { replace: true });
    },
  });
  return html`<${Menu} label=${`More for ${titleOf(view)}`} actions=${[
    { label: "Rename", icon: "pencil", act: () => setRenaming(true) }, { label: "Delete", icon: "trash-2", danger: true, act: drop }]} />
    ${renaming && html`<${Rename} view=${view} onClose=${() => setRenaming(false)} />`}`;
}

/** @param {{view: ConversationView, onClose: () => void}} props */
function Rename({ view, onClose }) {
  const [title, setTitle] = useState(view.title);
  const save = (/** @type {Event} */ event) => {
    event.preventDefault();
    patch(path`/conversations/${view.id}`, { title }).then(onClose, failed);
  };
  return html`<${Dialog} title="Rename conversation" onClose=${onClose}><form onSubmit=${save}><div class="dialog-body"><${Field} label="Title" for="conversation-title">
    <input id="conversation-title" value=${title} maxlength="200" required autofocus dir="auto" onInput=${(/** @type {any} */ event) => setTitle(event.target.value)} /><//></div>
    <footer><${Button} onClick=${onClose}>Cancel<//><${Button} kind="primary" type="submit" disabled=${!title.trim()}>Rename<//></footer></form><//>`;
}

/** By age, as people speak of it. @param {ConversationView[]} all @returns {[string, ConversationView[]][]} */
function grouped(all) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  const day = 86_400_000;
  const name = (/** @type {ConversationView} */ view) => {
    const at = Date.parse(view.updated_at);
    return at >= midnight ? "Today" : at >= midnight - day ? "Yesterday" : at >= midnight - 6 * day ? "Last 7 days" : "Older";
  };
  return [...Map.groupBy(all, name)];
}
