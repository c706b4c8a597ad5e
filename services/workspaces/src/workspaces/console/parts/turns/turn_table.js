// The list of turns. Each has a bar: how long it waited, and how long it ran.
import { html, signal, useComputed } from "../../lib.js";
import { Icon, Pill } from "../basic.js";
import { Table } from "../table.js";
import { Clock } from "../time.js";
import { duration } from "../units.js";
import { STATES, isOver, partsOf, wholeOf, widest } from "./lines.js";

/** @typedef {import("../../answers").TurnLine} TurnLine */

/** The time, five times a second while somebody looks. Read only for turns that run. */
const now = signal(Date.now());
setInterval(() => document.hidden || (now.value = Date.now()), 200);

/** @param {{line: Pick<TurnLine, "state" | "code">}} props */
export function TurnState({ line }) {
  const { word, tone } = STATES[line.state] ?? { word: line.state, tone: "idle" };
  return html`<${Pill} tone=${tone} title=${line.code ?? undefined}>${word}<//>`;
}

/** @param {{lines: readonly TurnLine[], label?: string}} props */
export function TurnTable({ lines, label = "Turns" }) {
  const width = widest(lines, now.peek());
  const columns = [
    { title: "Agent", class: "agent", cell: Agent },
    { title: "State", cell: (/** @type {TurnLine} */ line) => html`<${TurnState} line=${line} />` },
    { title: "Time", class: "timing", cell: (/** @type {TurnLine} */ line) => html`<${Timing} line=${line} width=${width} />` },
    { title: "Caller", class: "caller", cell: (/** @type {TurnLine} */ line) => line.conversation_id
      ? html`<a class="ellipsis" title=${line.caller} href=${`/workspaces/${line.workspace_id}/conversations/${line.conversation_id}`}>${line.conversation || "Conversation"}</a>`
      : html`<span class="muted ellipsis" title=${line.caller}>${line.caller ?? "–"}</span>` },
    { title: "Requested", class: "when", cell: (/** @type {TurnLine} */ line) => (line.requested_at ? html`<${Clock} at=${line.requested_at} />` : html`<span class="muted">–</span>`) },
  ];
  return html`<div class="turn-list"><${Table} label=${label} columns=${columns} rows=${lines} keyOf=${(/** @type {TurnLine} */ line) => line.id} href=${(/** @type {TurnLine} */ line) => `/turns/${encodeURIComponent(line.id)}`} /></div>`;
}

/** @param {TurnLine} line */
const Agent = (line) => html`<span class="turn-agent"><span class="faint">${line.team}/</span>${line.agent}</span>
  ${line.attempts > 1 && html`<span class="tag" title="Workers were lost or drained">${line.attempts} attempts</span>`}
  ${line.replay_of && html`<span class="tag"><${Icon} name="rotate-cw" size=${12} />again</span>`}
  ${line.asked && html`<span class="turn-asked ellipsis" dir="auto">${line.asked}</span>`}
  ${line.state === "failed" && line.error && html`<span class="turn-error ellipsis" dir="auto" title=${line.error}>${line.error}</span>`}`;

/** @param {{line: TurnLine, width: number}} props */
function Timing({ line, width }) {
  const open = !isOver(line);
  const at = useComputed(() => (open ? now.value : 0)).value;
  const parts = partsOf(line, width, at);
  if (!parts) return html`<span class="muted">–</span>`;
  const waited = line.queued_ms === null ? "" : `, of which ${duration(line.queued_ms)} waiting`;
  return html`<span class="timing-cell" title=${`${duration(wholeOf(line, at))}${waited}`}>
    <span class=${parts.cut ? "timing-bar cut" : "timing-bar"} aria-hidden="true" style=${{ "--queued": parts.queued, "--ran": parts.ran }}>
      <i class="queued" /><i class=${`ran ${line.state}`} /></span>
    <span class="number">${duration(wholeOf(line, at))}</span></span>`;
}
