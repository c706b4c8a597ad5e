// One message of the transcript.
import { html, useRef, useState, valueTo } from "../lib.js";
import { ApiError, post, path } from "../api.js";
import { navigate } from "../router.js";
import { session } from "../state.js";
import { Banner, Button, Copy, Icon, IconButton } from "../parts/basic.js";
import { confirm } from "../parts/dialog.js";
import { useWork } from "../parts/load.js";
import { Blocks, Markdown } from "../parts/markdown.js";
import { Clock } from "../parts/time.js";
import { failed } from "../parts/toast.js";
import { keyOf } from "./agents.js";
import { versionsOf } from "./branches.js";
import { newDraft } from "./drafts.js";
import { running } from "./model.js";
import { AgentIcon } from "./picker.js";
import { Question } from "./question.js";
import { sendBranch } from "./sending.js";
import { Thinking } from "./thinking.js";
import { Steps, Took, useLog } from "./work.js";

/** @typedef {import("../answers").MessageView} MessageView */

/** @param {{item: import("./model.js").Item, chat: import("./model.js").Chat, agents: import("./agents.js").Agents}} props */
export function Message({ item, chat, agents }) {
  const view = item.view.value;
  return view.role === "user" ? html`<${Asked} view=${view} chat=${chat} agents=${agents} />` : html`<${Reply} item=${item} view=${view} agents=${agents} />`;
}

/** @param {{view: MessageView, chat: import("./model.js").Chat, agents: import("./agents.js").Agents}} props */
function Asked({ view, chat, agents }) {
  const [editing, setEditing] = useState(false);
  const agent = agents.agent.value;
  if (editing && agent) return html`<${Edit} view=${view} agent=${agent} workspace=${agents.workspace} onClose=${() => setEditing(false)} />`;
  return html`<article class=${`message asked${view.revision ? "" : " on-its-way"}`} aria-label="You">
    <${Pictures} view=${view} />
    ${view.content && html`<div class="bubble" dir="auto">${view.content}</div>`}
    <footer class="actions"><${Versions} chat=${chat} seq=${view.seq} workspace=${agents.workspace} />
      ${view.content && html`<${Copy} text=${view.content} label="Copy the message" />`}
      ${view.revision > 0 && agent && html`<${IconButton} icon="pencil" label="Edit and ask again" onClick=${() => setEditing(true)} />`}</footer></article>`;
}

/** @param {{view: MessageView, agent: import("./agents.js").AgentView, workspace: string, onClose: () => void}} props */
function Edit({ view, agent, workspace, onClose }) {
  const [{ id }] = useState(newDraft);
  const [text, setText] = useState(view.content);
  const { busy, error, run } = useWork();
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!text.trim()) return;
    void run(async () => openBranch(workspace, await sendBranch(id, view.id, { agent_instance_id: agent.instance_id, agent_server_id: agent.server_id }, { text: text.trim() })));
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") onClose();
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !matchMedia("(pointer: coarse)").matches) send(event);
  };
  return html`<form class="edit" onSubmit=${send}><textarea aria-label="Edited message" dir="auto" autofocus value=${text} onInput=${valueTo(setText)} onKeyDown=${keys} />
    ${error && html`<${Banner} tone="bad">${error}<//>`}
    <footer class="row wrap"><span class="muted grow">What came after it stays in a branch.</span><${Button} onClick=${onClose}>Cancel<//>
      <${Button} kind="primary" type="submit" busy=${busy} disabled=${!text.trim()}>Send<//></footer></form>`;
}

/** @param {string} workspace @param {string} conversation */
const openBranch = (workspace, conversation) => navigate(`/workspaces/${workspace}/conversations/${conversation}`);

/** Which version of a message is shown, if there are several. @param {{chat: import("./model.js").Chat, seq: number, workspace: string}} props */
function Versions({ chat, seq, workspace }) {
  const branches = chat.branches.value;
  if (!branches.length) return null;
  const { ids, at } = versionsOf(branches, chat.id, seq);
  if (ids.length < 2) return null;
  const to = (/** @type {number} */ index) => ids[index] && openBranch(workspace, ids[index]);
  return html`<span class="versions" role="group" aria-label="Versions of this message">
    <${IconButton} icon="arrow-left" label="The version before" disabled=${at < 1} onClick=${() => to(at - 1)} />${at + 1} / ${ids.length}
    <${IconButton} icon="arrow-right" label="The next version" disabled=${at >= ids.length - 1} onClick=${() => to(at + 1)} /></span>`;
}

/** @param {{view: MessageView}} props */
const Pictures = ({ view }) => view.images.length > 0 && html`<div class="pictures">${view.images.map((each) => html`
  <a href=${sourceOf(each.id)} target="_blank" rel="noopener">
    <img src=${sourceOf(each.id)} alt="Image of this message" loading="lazy" /></a>`)}</div>`;

/** The address of an image: what has not been sent yet is in the browser's memory. @param {string} id */
const sourceOf = (id) => (id.startsWith("blob:") ? id : `/api/v1/images/${id}`);

/** @param {{item: import("./model.js").Item, view: import("./model.js").Shown, agents: import("./agents.js").Agents}} props */
function Reply({ item, view, agents }) {
  const agent = agents.picker.value?.agents.find((each) => keyOf(each) === keyOfReply(view));
  const name = agent?.label ?? view.agent_title ?? view.agent_server_id ?? "Agent";
  const atWork = running(view);
  const self = useRef(/** @type {HTMLElement | null} */ (null));
  const turn = useLog(view, self, !atWork);
  return html`<article class="message reply" ref=${self} aria-label=${name} aria-busy=${atWork}>
    <header><${AgentIcon} icon=${agent?.icon} /><strong dir="auto">${name}</strong>
      ${!atWork && html`<span class="faint"><${Clock} at=${view.ended_at ?? view.created_at} /></span>`}<${Steps} turn=${turn} /></header>
    ${view.content ? html`<${Markdown} text=${view.content} meanwhile=${item.text.parts.peek()} />` : view.status !== "answered" && html`<${Arriving} text=${item.text} />`}
    <${Pictures} view=${view} />
    ${atWork && html`<${Thinking} progress=${view.progress} since=${item.since} asking=${view.status === "asking"} />`}
    ${view.status === "asking" && view.question && html`<${Question} key=${view.question.id} reply=${view.id} question=${view.question} />`}
    ${view.status === "answered" && !view.content.trim() && !view.images.length && html`<p class="muted">The agent answered without text.</p>`}
    ${view.status === "failed" && html`<${Failure} view=${view} />`}
    ${view.status === "cancelled" && html`<p class="cancelled"><${Icon} name="circle-x" size=${14} />Cancelled</p>`}
    ${!atWork && html`<${Actions} view=${view} agents=${agents} turn=${turn} />`}
  </article>`;
}

/** @param {MessageView} view */
const keyOfReply = (view) => keyOf({ instance_id: view.agent_instance_id ?? "", server_id: view.agent_server_id ?? "" });

/** @param {{view: MessageView}} props */
function Failure({ view }) {
  const [whole, setWhole] = useState(false);
  const code = whole ? html`<code class="tag">${view.error_code}</code>` : html`<${Button} small kind="quiet" onClick=${() => setWhole(true)}>Details<//>`;
  return html`<div class="failure" role="group" aria-label="Why there is no answer"><${Icon} name="circle-alert" />
    <div class="grow"><p dir="auto">${view.error ?? "The agent did not answer."}</p>${view.error_code && code}</div></div>`;
}

/** @param {{text: import("./streamed.js").Streamed}} props */
const Arriving = ({ text }) => text.parts.value.length > 0 && html`<${Blocks} parts=${text.parts.value} />`;

const MAYBE_DONE = "The agent may already have done what it was asked, or a part of it. A retry may do that once more.";

/** @param {{view: MessageView, agents: import("./agents.js").Agents, turn: import("../answers").TurnView | null}} props */
function Actions({ view, agents, turn }) {
  const [{ id }, setBranch] = useState(newDraft);
  const other = agents.agent.value;
  const broken = view.status !== "answered";
  const elsewhere = other && keyOf(other) !== keyOfReply(view) ? other : null;
  const { busy, run } = useWork();
  /** @param {object} target @returns {Promise<unknown>} */
  const send = (target) => post(path`/messages/${view.id}/retry`, target);
  const retry = (/** @type {object} */ target) => void run(() => send(target), (error) =>
    error instanceof ApiError && error.code === "needs_confirmation"
      ? confirm({ title: "Retry?", text: MAYBE_DONE, action: "Retry anyway", danger: true, act: () => send({ ...target, confirmed: true }) })
      : failed(error));
  const retryElsewhere = () => retry({ agent_instance_id: elsewhere?.instance_id, agent_server_id: elsewhere?.server_id });
  const regenerate = (/** @type {boolean} */ confirmed) => sendBranch(id, view.id, view, { confirmed }).then((conversation) => {
    setBranch(newDraft());
    openBranch(agents.workspace, conversation);
  });
  const anew = () => void run(() => regenerate(false), (error) =>
    error instanceof ApiError && error.code === "needs_confirmation"
      ? confirm({ title: "Ask again?", text: MAYBE_DONE, action: "Ask anyway", danger: true, act: () => regenerate(true) })
      : failed(error));
  return html`<footer class=${broken ? "actions stay" : "actions"}>
    ${broken && html`<${Button} small icon="rotate-cw" busy=${busy} onClick=${() => retry({})}>Retry<//>`}
    ${broken && elsewhere && html`<${Button} small kind="quiet" disabled=${busy} onClick=${retryElsewhere}>Retry with ${elsewhere.title}<//>`}
    ${view.content && html`<${Copy} text=${view.content} label="Copy the answer" />`}
    ${!broken && html`<${IconButton} icon="rotate-cw" label="Another answer" aria-disabled=${busy} onClick=${anew} />`}
    ${view.turn_id && session.value?.turns && html`<a class="explain" href=${`/turns/${view.turn_id}`}>
      <${Icon} name="activity" size=${14} />Explain this answer</a>`}<${Took} turn=${turn} /></footer>`;
}
