// The chat of one conversation.
import { html, useEffect, useMemo, useState } from "../lib.js";
import { failed } from "../parts/toast.js";
import { Banner, Button, Empty, Skeleton } from "../parts/basic.js";
import { keyOf } from "./agents.js";
import { Composer } from "./composer.js";
import { ConversationMenu } from "./conversation_list.js";
import { titleOf } from "./conversations.js";
import { firstMessages } from "./drafts.js";
import { Chat } from "./model.js";
import { sendMessage } from "./sending.js";
import { Transcript } from "./transcript.js";

/** @param {{id: string, agents: import("./agents.js").Agents, toggle: import("../lib.js").View}} props */
export function ChatPane({ id, agents, toggle }) {
  const chat = useMemo(() => new Chat(id), [id]);
  const [refused, setRefused] = useState(0);
  // Before the composer is there, which would take it for a draft.
  const first = useMemo(() => {
    const found = firstMessages.get(id);
    firstMessages.delete(id);
    return found;
  }, [id]);
  useEffect(() => {
    open(chat, agents, first).catch((error) => {
      failed(error);
      if (first) firstMessages.set(id, first);
      setRefused((count) => count + 1);
    });
    return () => chat.close();
  }, [chat]);
  const view = chat.conversation.value;
  const title = view ? titleOf(view) : "";
  useEffect(() => void (title && (document.title = `${title} · Pallas`)), [title]);

  /** @param {import("./sending.js").Message} message */
  const send = (message) => sendMessage(chat, agents.agent.value, message);
  if (chat.missing.value) return html`<${NoConversation} workspace=${agents.workspace} toggle=${toggle} />`;
  return html`<section class="chat" aria-label="Chat">
    <header class="chat-head">${toggle}<h1 class="ellipsis" dir="auto">${title || "Conversation"}</h1>
      ${view && html`<${ConversationMenu} view=${view} current />`}</header>
    ${chat.loaded.value ? html`<${Transcript} chat=${chat} agents=${agents} />` : html`<${Loading} chat=${chat} first=${first} />`}
    <${Composer} key=${refused} place=${id} agents=${agents} running=${chat.running.value} asking=${chat.last.value?.status === "asking"}
      cancel=${() => chat.cancel().catch(failed)} send=${send} /></section>`;
}

/** @param {{workspace: string, toggle: import("../lib.js").View}} props */
const NoConversation = ({ workspace, toggle }) => html`<section class="chat" aria-label="Chat">
  <header class="chat-head">${toggle}<h1 class="ellipsis">Conversation</h1></header>
  <${Empty} icon="message-square" title="There is no such conversation"
    action=${html`<${Button} href=${`/workspaces/${workspace}`} icon="plus">New conversation<//>`}>It may have been deleted.<//></section>`;

/** `first`: the message it was made for, which is on its way. @param {{chat: Chat, first: import("./drafts.js").FirstMessage | undefined}} props */
function Loading({ chat, first }) {
  const again = html`<${Button} small onClick=${() => chat.load()}>Try again<//>`;
  const error = chat.error.value;
  return html`<div class="transcript-frame"><div class="messages">
    ${error ? html`<${Banner} tone="bad" action=${again}>${error}<//>` : first?.draft.text ? html`
      <article class="message asked on-its-way" aria-label="You"><div class="bubble" dir="auto">${first.draft.text}</div></article>`
      : html`<${Skeleton} lines=${6} />`}</div></div>`;
}

/**
 * Load it, pick its latest agent, and send the message it was made for.
 * @param {Chat} chat
 * @param {import("./agents.js").Agents} agents
 * @param {import("./drafts.js").FirstMessage | undefined} first
 */
async function open(chat, agents, first) {
  await chat.load();
  if (chat.closed) return;
  const reply = chat.items.value.findLast((item) => item.view.value.role === "assistant")?.view.value;
  if (reply?.agent_instance_id && reply.agent_server_id)
    agents.choose(keyOf({ instance_id: reply.agent_instance_id, server_id: reply.agent_server_id }));
  if (first) await sendMessage(chat, agents.agent.value, { ...first.draft, pictures: first.pictures });
}
