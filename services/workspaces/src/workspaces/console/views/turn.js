// One turn: where its time went, drawn as a waterfall that grows while it runs, what was asked and what was answered.
import { capital, html, useState, useTitle } from "../lib.js";
import { session } from "../state.js";
import { Button, Icon } from "../parts/basic.js";
import { RunAgain } from "../parts/turns/again.js";
import { isOver } from "../parts/turns/lines.js";
import { Missing, useClock, useTurn } from "../parts/turns/live_turn.js";
import { NoTurns } from "../parts/turns/no_turns.js";
import { Content, Facts, Fault, Summary } from "../parts/turns/summary.js";
import { TurnState } from "../parts/turns/turn_table.js";
import { Waterfall } from "../parts/waterfall/waterfall.js";
import { sentence } from "../parts/waterfall/words.js";

/** @typedef {import("../answers").TurnView} View */

/** @param {{params: {id: string}}} props */
export default function TurnPage({ params }) {
  const { data: view, fault, again } = useTurn(params.id);
  const now = useClock(view);
  const name = view ? `${view.turn.team}/${view.turn.agent}` : "Turn";
  useTitle(name);
  if (session.value && !session.value.turns) return html`<${NoTurns} />`;
  return html`<div class="page wide turn">
    <nav aria-label="Breadcrumb" class="crumbs"><a href="/turns"><${Icon} name="arrow-left" size=${14} />Turns</a></nav>
    ${!view ? html`<h1 class="visually-hidden">Turn</h1><${Missing} fault=${fault} again=${again} />` : html`
      <${Head} view=${view} />
      <${Fault} view=${view} />
      <${Summary} view=${view} />
      <section class="card flush" aria-label="Where the time went">
        <p class="visually-hidden">${sentence(view.times)}</p><p class="visually-hidden" role="status">${view.turn.state}</p>
        <${Waterfall} key=${params.id} bars=${view.bars} total=${view.times.total} running=${!isOver(view.turn)} now=${now} /></section>
      <${Content} view=${view} />`}
  </div>`;
}

/** @param {{view: View}} props */
function Head({ view }) {
  const [asking, setAsking] = useState(false);
  const { turn } = view;
  return html`<header><div><div class="row wrap"><h1><span class="faint">${turn.team}/</span>${turn.agent}</h1><${TurnState} line=${turn} /></div>
      <${Facts} view=${view} /></div>
    <div class="row wrap turn-actions">
      ${view.conversation_id && html`<${Button} icon="message-square" href=${`/workspaces/${encodeURIComponent(view.workspace_id ?? "")}/conversations/${encodeURIComponent(view.conversation_id)}`}>Conversation<//>`}
      <${Button} kind="primary" icon="rotate-cw" disabled=${!view.can_replay} title=${view.why_not ?? undefined} onClick=${() => setAsking(true)}>Run again<//>
      ${view.why_not && isOver(turn) && html`<p class="why-not">${capital(view.why_not.replace(`turn ${turn.id}`, "this turn"))}.</p>`}</div></header>
    ${asking && html`<${RunAgain} view=${view} onClose=${() => setAsking(false)} />`}`;
}
