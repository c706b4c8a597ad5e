// The list of conversations, and renaming and deleting them.
import { html, useEffect, useRef, useState, valueTo } from "../lib.js";
import { patch, path, remove } from "../api.js";
import { navigate } from "../router.js";
import { Banner, Button, Field, Skeleton, Spinner } from "../parts/basic.js";
import { Dialog, confirm } from "../parts/dialog.js";
import { Menu } from "../parts/menu.js";
import { failed } from "../parts/toast.js";
import { titleOf } from "./conversations.js";

/** @typedef {import("../answers").ConversationView} ConversationView */

/**
 * `current` is the one that is shown; `onPick` is called when one is opened.
 * @param {{conversations: import("./conversations.js").Conversations, current: string | undefined, onPick: () => void}} props
 */
export function ConversationList({ conversations, current, onPick }) {
  const more = useRef(/** @type {HTMLElement | null} */ (null));
  const { list, next, error } = conversations;
  useEffect(() => {
    if (!more.current) return undefined;
    const seen = new IntersectionObserver(([entry]) => entry?.isIntersecting && next.value && void conversations.load(next.value));
    seen.observe(more.current);
    return () => seen.disconnect();
  }, [next.value]);
  const all = list.value;
  const frame = useRef(/** @type {HTMLElement | null} */ (null));
  const loaded = all !== null;
  useEffect(() => frame.current?.querySelector(".current")?.scrollIntoView({ block: "nearest" }), [current, loaded]);
  return html`<div class="conversation-scroll" ref=${frame}>
    ${!all && !error.value && html`<${Skeleton} lines=${5} />`}
    ${error.value && html`<${Banner} tone="bad" action=${html`<${Button} small onClick=${() => conversations.load()}>Try again<//>`}>${error.value}<//>`}
    ${all && grouped(all).map(([title, some]) => html`<section key=${title} aria-label=${title}><h3>${title}</h3>
      <ul>${some.map((view) => html`
        <${Line} key=${view.id} view=${view} current=${view.id === current} onPick=${onPick} />`)}</ul></section>`)}
    ${all && !all.length && html`<p class="faint none">No conversations yet.</p>`}
    ${next.value && html`<div class="older" ref=${more}><${Spinner} /></div>`}</div>`;
}

/** @param {{view: ConversationView, current: boolean, onPick: () => void}} props */
const Line = ({ view, current, onPick }) => html`<li class=${current ? "current" : ""}>
  <a href=${`/workspaces/${view.workspace_id}/conversations/${view.id}`} aria-current=${current ? "page" : undefined} onClick=${onPick}>
    <span class="ellipsis grow" dir="auto">${titleOf(view)}</span>
    ${view.answering && html`<span title="An agent is at work">
      <${Spinner} size=${12} /><span class="visually-hidden">an agent is at work</span></span>`}</a>
  <${ConversationMenu} view=${view} current=${current} /></li>`;

/** Rename and delete. @param {{view: ConversationView, current: boolean}} props */
export function ConversationMenu({ view, current }) {
  const [renaming, setRenaming] = useState(false);
  const drop = () => confirm({
    title: "Delete this conversation?", action: "Delete", danger: true,
    text: `This deletes “${titleOf(view)}” with all its messages for good.`,
    act: async () => {
      await remove(path`/conversations/${view.id}`);
      if (current) navigate(`/workspaces/${view.workspace_id}`, { replace: true });
    },
  });
  const actions = [
    { label: "Rename", icon: "pencil", act: () => setRenaming(true) },
    { label: "Export as Markdown", icon: "download", act: () => void import("./export.js").then((module) => module.exportConversation(view)).catch(failed) },
    { label: "Delete", icon: "trash-2", danger: true, act: drop },
  ];
  return html`<${Menu} label=${`More for ${titleOf(view)}`} actions=${actions} />
    ${renaming && html`<${Rename} view=${view} onClose=${() => setRenaming(false)} />`}`;
}

/** @param {{view: ConversationView, onClose: () => void}} props */
function Rename({ view, onClose }) {
  const [title, setTitle] = useState(view.title);
  const save = (/** @type {Event} */ event) => {
    event.preventDefault();
    patch(path`/conversations/${view.id}`, { title }).then(onClose, failed);
  };
  return html`<${Dialog} title="Rename conversation" onClose=${onClose}><form onSubmit=${save}>
    <div class="dialog-body"><${Field} label="Title" for="conversation-title">
      <input id="conversation-title" value=${title} maxlength="200" required autofocus dir="auto" onInput=${valueTo(setTitle)} /><//></div>
    <footer><${Button} onClick=${onClose}>Cancel<//>
      <${Button} kind="primary" type="submit" disabled=${!title.trim()}>Rename<//></footer></form><//>`;
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
