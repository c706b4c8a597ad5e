// The chat of one conversation.
import { html, useEffect, useMemo } from "../lib.js";
import { failed } from "../parts/toast.js";
import { Banner, Button, Empty, Skeleton } from "../parts/basic.js";
import { keyOf } from "./agents.js";
import { Composer } from "./composer.js";
import { ConversationMenu } from "./conversation_list.js";
import { titleOf } from "./conversations.js";
import { firstTexts } from "./drafts.js";
import { OfflineModel } from "./first_steps.js";
import { Chat } from "./model.js";
import { tellOfAnswers } from "./notice.js";
import { sendMessage } from "./sending.js";
import { Transcript } from "./transcript.js";

/** @param {{id: string, agents: import("./agents.js").Agents, toggle: import("../lib.js").View}} props */
export function ChatPane({ id, agents, toggle }) {
  const chat = useMemo(() => new Chat(id), [id]);
  useEffect(() => {
    void open(chat, agents);
    const untold = tellOfAnswers(chat);
    return () => (untold(), chat.close());
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
    <${OfflineModel} agent=${agents.agent.value} />
    ${chat.loaded.value ? html`<${Transcript} chat=${chat} agents=${agents} />` : html`<${Loading} chat=${chat} />`}
    <${Composer} place=${id} agents=${agents} running=${chat.running.value} asking=${chat.last.value?.status === "asking"}
      cancel=${() => chat.cancel().catch(failed)} send=${send} /></section>`;
}

/** @param {{workspace: string, toggle: import("../lib.js").View}} props */
const NoConversation = ({ workspace, toggle }) => html`<section class="chat" aria-label="Chat">
  <header class="chat-head">${toggle}<h1 class="ellipsis">Conversation</h1></header>
  <${Empty} icon="message-square" title="There is no such conversation"
    action=${html`<${Button} href=${`/workspaces/${workspace}`} icon="plus">New conversation<//>`}>It may have been deleted.<//></section>`;

/** @param {{chat: Chat}} props */
function Loading({ chat }) {
  const again = html`<${Button} small onClick=${() => chat.load()}>Try again<//>`;
  const error = chat.error.value;
  const first = firstTexts.get(chat.id);
  return html`<div class="transcript-frame"><div class="messages">
    ${error ? html`<${Banner} tone="bad" action=${again}>${error}<//>` : first ? html`
      <article class="message asked" aria-label="You"><div class="bubble" dir="auto">${first}</div></article>`
      : html`<${Skeleton} lines=${6} />`}</div></div>`;
}

/** Load it, and pick its latest agent. @param {Chat} chat @param {import("./agents.js").Agents} agents */
async function open(chat, agents) {
  await chat.load();
  firstTexts.delete(chat.id);
  if (chat.closed) return;
  const reply = chat.items.value.findLast((item) => item.view.value.role === "assistant")?.view.value;
  if (reply?.agent_instance_id && reply.agent_server_id)
    agents.choose(keyOf({ instance_id: reply.agent_instance_id, server_id: reply.agent_server_id }));
}
