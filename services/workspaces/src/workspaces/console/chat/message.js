// One message of the transcript.
import { html, useState } from "../lib.js";
import { ApiError, post, path } from "../api.js";
import { session } from "../state.js";
import { Button, Copy, Icon } from "../parts/basic.js";
import { confirm } from "../parts/dialog.js";
import { useWork } from "../parts/load.js";
import { Blocks, Markdown } from "../parts/markdown.js";
import { Clock } from "../parts/time.js";
import { failed } from "../parts/toast.js";
import { keyOf } from "./agents.js";
import { running } from "./model.js";
import { AgentIcon } from "./picker.js";
import { Question } from "./question.js";
import { Thinking } from "./thinking.js";

/** @typedef {import("../answers").MessageView} MessageView */

/** @param {{item: import("./model.js").Item, agents: import("./agents.js").Agents}} props */
export function Message({ item, agents }) {
  const view = item.view.value;
  return view.role === "user" ? html`<${Asked} view=${view} />` : html`<${Reply} item=${item} view=${view} agents=${agents} />`;
}

/** @param {{view: MessageView}} props */
const Asked = ({ view }) => html`<article class=${`message asked${view.revision ? "" : " on-its-way"}`} aria-label="You">
  <${Pictures} view=${view} />
  ${view.content && html`<div class="bubble" dir="auto">${view.content}</div>`}</article>`;

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
  return html`<article class="message reply" aria-label=${name} aria-busy=${atWork}>
    <header><${AgentIcon} icon=${agent?.icon} /><strong dir="auto">${name}</strong>
      ${!atWork && html`<span class="faint"><${Clock} at=${view.ended_at ?? view.created_at} /></span>`}</header>
    ${view.content ? html`<${Markdown} text=${view.content} meanwhile=${item.text.parts.peek()} />` : view.status !== "answered" && html`<${Arriving} text=${item.text} />`}
    <${Pictures} view=${view} />
    ${atWork && html`<${Thinking} progress=${view.progress} since=${item.since} asking=${view.status === "asking"} />`}
    ${view.status === "asking" && view.question && html`<${Question} key=${view.question.id} reply=${view.id} question=${view.question} />`}
    ${view.status === "answered" && !view.content.trim() && !view.images.length && html`<p class="muted">The agent answered without text.</p>`}
    ${view.status === "failed" && html`<${Failure} view=${view} />`}
    ${view.status === "cancelled" && html`<p class="cancelled"><${Icon} name="circle-x" size=${14} />Cancelled</p>`}
    ${!atWork && html`<${Actions} view=${view} agents=${agents} />`}
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

/** @param {{view: MessageView, agents: import("./agents.js").Agents}} props */
function Actions({ view, agents }) {
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
  return html`<footer class=${broken ? "actions stay" : "actions"}>
    ${broken && html`<${Button} small icon="rotate-cw" busy=${busy} onClick=${() => retry({})}>Retry<//>`}
    ${broken && elsewhere && html`<${Button} small kind="quiet" disabled=${busy} onClick=${retryElsewhere}>Retry with ${elsewhere.title}<//>`}
    ${view.content && html`<${Copy} text=${view.content} label="Copy the answer" />`}
    ${view.turn_id && session.value?.turns && html`<a class="explain" href=${`/turns/${view.turn_id}`}>
      <${Icon} name="activity" size=${14} />Explain this answer</a>`}</footer>`;
}
