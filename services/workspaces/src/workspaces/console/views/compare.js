// Two turns side by side: their answers, where their time went, and their timelines on the same scale.
import { html, useEffect } from "../lib.js";
import { get, path } from "../api.js";
import { session } from "../state.js";
import { Banner, Icon } from "../parts/basic.js";
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
  useEffect(() => void (document.title = "Compare turns · Pallas"), []);
  if (session.value && !session.value.turns) return html`<${NoTurns} />`;
  const longest = data ? Math.max(data.old.times.total, data.new.times.total) : 0;
  return html`<div class="page wide">
    <nav aria-label="Breadcrumb" class="crumbs"><a href=${`/turns/${encodeURIComponent(a)}`}><${Icon} name="arrow-left" size=${14} />The first turn</a></nav>
    <header><div><h1>Side by side</h1></div></header>
    ${!data ? html`<${Missing} fault=${fault} again=${again} />` : html`
      <${Verdict} data=${data} />
      <${Figures} old=${data.old} new=${data.new} />
      <div class="sides"><${Side} label="First" view=${data.old} longest=${longest} /><${Side} label="Again" view=${data.new} longest=${longest} /></div>`}
  </div>`;
}

/** @param {{data: Comparison}} props */
function Verdict({ data }) {
  if (!isOver(data.new.turn)) return html`<${Banner} tone="busy" icon="timer">The second turn runs. This page follows it.<//>`;
  if (data.equal === null) return html`<${Banner} tone="idle">The answers cannot be compared: one of them is not stored.<//>`;
  return data.equal ? html`<${Banner} tone="ok">The answers are equal.<//>` : html`<${Banner} tone="warn" icon="diff">The answers differ.<//>`;
}

/** @param {{label: string, view: View, longest: number}} props */
function Side({ label, view, longest }) {
  const now = useClock(view);
  const { turn } = view;
  return html`<section class="side" aria-label=${`${label}: ${turn.agent}`}>
    <header class="row wrap"><h2><span class="faint">${label}</span> <a href=${`/turns/${encodeURIComponent(turn.id)}`}>${turn.team}/${turn.agent}</a></h2>
      <${TurnState} line=${turn} />${turn.model && html`<span class="tag">${turn.model}</span>`}</header>
    <${Fault} view=${view} />
    <div class="card answer"><${Answer} view=${view} /></div>
    <div class="card flush"><${Waterfall} key=${turn.id} bars=${view.bars} total=${view.times.total} scale=${longest} running=${!isOver(turn)} now=${now} narrow label=${`Timeline, ${label}`} /></div>
  </section>`;
}
