// Two turns side by side: their answers, where their time went, and their timelines on the same scale.
import { html, useMemo, useState, useTitle } from "../lib.js";
import { get, path } from "../api.js";
import { session } from "../state.js";
import { Banner, Button, Icon } from "../parts/basic.js";
import { differences } from "../parts/turns/diff.js";
import { Figures } from "../parts/turns/figures.js";
import { isOver } from "../parts/turns/lines.js";
import { Missing, useClock, useLive } from "../parts/turns/live_turn.js";
import { NoTurns } from "../parts/turns/no_turns.js";
import { Answer, Fault } from "../parts/turns/summary.js";
import { TurnState } from "../parts/turns/turn_table.js";
import { Waterfall } from "../parts/waterfall/waterfall.js";

/** @typedef {import("../answers").Comparison} Comparison */
/** @typedef {import("../answers").TurnView} View */

/** @param {{params: {a: string, b: string}}} props */
export default function ComparePage({ params }) {
  const { a, b } = params;
  const both = (/** @type {Comparison} */ found) => isOver(found.old.turn) && isOver(found.new.turn);
  const { data, fault, again } = useLive(() => /** @type {Promise<Comparison>} */ (get(path`/turns/${a}/compare/${b}`)), both, [a, b]);
  useTitle("Compare turns");
  const [marking, setMarking] = useState(false);
  const texts = [data?.old.content?.text ?? "", data?.new.content?.text ?? ""];
  const pieces = useMemo(() => (marking ? differences(texts[0] ?? "", texts[1] ?? "") : undefined), [marking, ...texts]);
  if (session.value && !session.value.turns) return html`<${NoTurns} />`;
  const longest = data ? Math.max(data.old.times.total, data.new.times.total) : 0;
  return html`<div class="page wide">
    <nav aria-label="Breadcrumb" class="crumbs"><a href=${`/turns/${encodeURIComponent(a)}`}><${Icon} name="arrow-left" size=${14} />The first turn</a></nav>
    <header><div><h1>Side by side</h1></div></header>
    ${!data ? html`<${Missing} fault=${fault} again=${again} />` : html`
      <${Verdict} data=${data} marking=${marking} onMark=${() => setMarking(!marking)} />
      <${Figures} old=${data.old} new=${data.new} />
      <div class="sides"><${Side} label="First" view=${data.old} longest=${longest} pieces=${pieces?.filter((each) => each.in !== "new")} />
        <${Side} label="Again" view=${data.new} longest=${longest} pieces=${pieces?.filter((each) => each.in !== "old")} /></div>`}
  </div>`;
}

/** @param {{data: Comparison, marking: boolean, onMark: () => void}} props */
function Verdict({ data, marking, onMark }) {
  if (!isOver(data.new.turn)) return html`<${Banner} tone="busy" icon="timer">The second turn runs. This page follows it.<//>`;
  const without = [data.old, data.new].filter((each) => ["failed", "cancelled"].includes(each.turn.state));
  if (without.length === 2) return html`<${Banner} tone="bad">There is no answer to compare: both turns have ${without.every((each) => each.turn.state === "failed") ? "failed" : "ended without one"}.<//>`;
  if (without.length) return html`<${Banner} tone="bad">Only the ${without[0] === data.old ? "second" : "first"} turn has an answer.<//>`;
  if (data.old.turn.state === "failed" || data.new.turn.state === "failed") return html`<${Banner} tone="idle">${data.old.turn.state === data.new.turn.state ? "Both turns failed, so there are no answers to compare." : "One turn failed, so there are no two answers to compare."}<//>`;
  if (data.equal === null) return html`<${Banner} tone="idle">The answers cannot be compared: one of them is not stored.<//>`;
  if (data.equal) return html`<${Banner} tone="ok">The answers are equal.<//>`;
  const mark = html`<${Button} small aria-pressed=${marking} onClick=${onMark}>${marking ? "Show as Markdown" : "Show differences"}<//>`;
  return html`<${Banner} tone="warn" icon="diff" action=${mark}>The answers differ.<//>`;
}

/** @param {{label: string, view: View, longest: number, pieces?: import("../parts/turns/diff.js").Piece[]}} props */
function Side({ label, view, longest, pieces }) {
  const now = useClock(view);
  const { turn } = view;
  return html`<section class="side" aria-label=${`${label}: ${turn.agent}`}>
    <header class="row wrap"><h2><span class="faint">${label}</span> <a href=${`/turns/${encodeURIComponent(turn.id)}`}>${turn.team}/${turn.agent}</a></h2>
      <${TurnState} line=${turn} />${view.model && html`<span class="tag">${view.model}</span>`}</header>
    <div class="stack-small"><${Fault} view=${view} />
      <div class="card answer">${pieces ? html`<${Marked} pieces=${pieces} />` : html`<${Answer} view=${view} />`}</div></div>
    <div class="card flush"><${Waterfall} key=${turn.id} bars=${view.bars} total=${view.times.total} scale=${longest} running=${!isOver(turn)} now=${now} narrow label=${`Timeline, ${label}`} /></div>
  </section>`;
}

/** A text in which what the other one lacks is marked. @param {{pieces: import("../parts/turns/diff.js").Piece[]}} props */
const Marked = ({ pieces }) => html`<div class="marked" dir="auto">${pieces.map((piece) =>
  piece.in === "same" ? piece.text : piece.in === "old" ? html`<del>${piece.text}</del>` : html`<ins>${piece.text}</ins>`)}</div>`;
