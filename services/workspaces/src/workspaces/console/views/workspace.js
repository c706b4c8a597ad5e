// A workspace: its conversations, and the chat of one of them.
import { asset, html, useEffect, useLayoutEffect, useMemo, useRef, useSignal } from "../lib.js";
import { on } from "../events.js";
import { navigate } from "../router.js";
import { workspaces } from "../state.js";
import { failed } from "../parts/toast.js";
import { Button, Empty, Icon, IconButton } from "../parts/basic.js";
import { openSearch } from "../parts/search.js";
import { Footer, Navigation, Stream } from "../parts/shell.js";
import { Agents } from "../chat/agents.js";
import { ChatPane } from "../chat/chat.js";
import { Composer } from "../chat/composer.js";
import { ConversationList } from "../chat/conversation_list.js";
import { Conversations } from "../chat/conversations.js";
import { firstTexts, newDraft } from "../chat/drafts.js";
import { OfflineModel, Starters } from "../chat/first_steps.js";
import { sendFirst } from "../chat/sending.js";

/** @param {{params: {ws: string, c?: string}, query: URLSearchParams}} props */
export default function Workspace({ params: { ws, c }, query }) {
  const agents = useMemo(() => new Agents(ws), [ws]);
  const conversations = useMemo(() => new Conversations(ws), [ws]);
  const listed = useSignal(false);
  useEffect(() => {
    void agents.load();
    void conversations.load();
    return () => {
      agents.close();
      conversations.close();
    };
  }, [ws]);
  const wanted = query.get("agent");
  useEffect(() => void (wanted && agents.choose(wanted)), [agents, wanted]);
  useEffect(() => on("conversation_deleted", ({ id }) => id === c && navigate(`/workspaces/${ws}`, { replace: true })), [ws, c]);
  const workspace = workspaces.value?.find((each) => each.id === ws);
  const name = workspace?.name ?? "";
  useEffect(() => {
    if (!c) document.title = `${name || "Workspace"} · Pallas`;
  }, [name, c]);
  useEffect(() => void (listed.value = false), [c]);
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const opened = useRef(false);
  // Where the list is a drawer, it takes the focus when it opens, and gives it back when it closes: before it is painted
  // hidden, when browsers take the focus away.
  useLayoutEffect(() => {
    if (listed.value) list.current?.querySelector("a")?.focus();
    else if (opened.current && list.current?.contains(document.activeElement))
      /** @type {HTMLElement | null} */ (document.querySelector(".list-toggle"))?.focus();
    opened.current = listed.value;
  }, [listed.value]);
  if (workspaces.value && !workspace)
    return html`<div class="page">
      <${Empty} icon="layout-grid" whole title="There is no such workspace" action=${html`<${Button} href="/workspaces">Workspaces<//>`} /></div>`;

  const keys = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && (listed.value = false);
  const toggle = html`<${IconButton} icon="menu" class="list-toggle" label="Conversations" aria-expanded=${listed.value}
    onClick=${() => (listed.value = !listed.value)} /><${Stream} />`;
  return html`<div class=${listed.value ? "workspace listed" : "workspace"} onKeyDown=${keys}>
    <section class="conversations" aria-label="Conversations" ref=${list}>
      <header><h2 class="ellipsis" dir="auto" title=${name} aria-hidden=${!name}>${name}</h2>
        <span class="grow" /><${IconButton} icon="search" label="Search (Ctrl+K)" onClick=${openSearch} />
        <a class="icon-button" href=${`/workspaces/${ws}/settings`} aria-label="Workspace settings" title="Workspace settings">
          <${Icon} name="settings" /></a></header>
      <${Button} href=${`/workspaces/${ws}`} icon="plus" class="new" onClick=${() => (listed.value = false)}>New conversation<//>
      <${ConversationList} conversations=${conversations} current=${c} onPick=${() => (listed.value = false)} />
      <div class="drawer-nav"><${Navigation} /><${Footer} /></div></section>
    <div class="list-scrim" onClick=${() => (listed.value = false)} />
    ${c ? html`<${ChatPane} key=${c} id=${c} agents=${agents} toggle=${toggle} />`
      : html`<${NewChat} key=${ws} ws=${ws} name=${name} agents=${agents} toggle=${toggle} />`}
  </div>`;
}

/**
 * A conversation begins with its first message.
 * @param {{ws: string, name: string, agents: Agents, toggle: import("../lib.js").View}} props
 */
function NewChat({ ws, name, agents, toggle }) {
  /** @param {import("../chat/sending.js").Message} message */
  const send = async (message) => {
    await sendFirst(ws, agents.agent.value, message);
    firstTexts.set(message.id, message.text);
    navigate(`/workspaces/${ws}/conversations/${message.id}`);
  };
  // A message to try has its id until it was sent: clicked again, it is the same one.
  const tried = useRef(newDraft());
  const starting = useRef(false);
  const start = async (/** @type {string} */ text) => {
    if (starting.current) return;
    starting.current = true;
    if (tried.current.text !== text) tried.current = newDraft(text);
    await send({ ...tried.current, pictures: [] }).then(() => (tried.current = newDraft()), failed);
    starting.current = false;
  };
  const empty = agents.picker.value?.empty;
  const greeting = empty ? "Attach a team to begin" : `What should the agents of ${name || "this workspace"} do?`;
  return html`<section class="chat new-chat" aria-label="New conversation">
    <header class="chat-head">${toggle}<h1 class="ellipsis">New conversation</h1></header>
    <${OfflineModel} agent=${agents.agent.value} />
    <div class="greeting"><img src=${asset("logo.svg")} alt="" width="40" height="40" /><h2 dir="auto">${greeting}</h2></div>
    <${Composer} place=${`new.${ws}`} agents=${agents} stays send=${send} />
    <${Starters} agent=${agents.agent.value} send=${start} /></section>`;
}
