// What a turn was: its facts, where its time went, what was asked and answered.
import { capital, counted, html } from "../../lib.js";
import { Markdown } from "../markdown.js";
import { Banner, Copy, Icon } from "../basic.js";
import { Time } from "../time.js";
import { duration } from "../units.js";
import { stretches } from "../waterfall/strip.js";
import { cost, costOf, tokens, tokensOf } from "../waterfall/words.js";
import { isOver } from "./lines.js";

/** @typedef {import("../../answers").TurnView} TurnView */

/** The sentence about where the time went, as a row of figures. @param {{view: TurnView}} props */
export function Summary({ view }) {
  const { times, bars } = view;
  const sum = tokensOf(bars), spent = cost(costOf(bars));
  const agents = stretches(bars.filter((bar) => bar.kind === "agent" && bar.turn_id), times.total).filter((each) => each.doing === "agent");
  const away = agents.reduce((all, each) => all + each.to - each.from, 0);
  const parts = [
    { kind: "queue", figure: duration(times.queued), text: "waiting" },
    ...(times.model_calls ? [{ kind: "model", figure: duration(times.models), text: `in ${counted(times.model_calls, "model call")}` }] : []),
    ...(times.tool_calls ? [{ kind: "tool", figure: duration(times.tools), text: `in ${counted(times.tool_calls, "tool call")}` }] : []),
    ...(away ? [{ kind: "agent", figure: duration(away), text: "in turns of other agents" }] : []),
    ...(isOver(view.turn) && times.rest - away >= 1 ? [{ kind: "other", figure: duration(times.rest - away), text: "other" }] : []),
  ];
  return html`<div class="summary" role="group" aria-label="Summary">
    <p class="total"><b>${duration(times.total)}</b><span>${isOver(view.turn) ? "in all" : "so far"}</span></p>
    ${parts.map((part) => html`<p key=${part.kind} class=${`k-${part.kind}`}><i aria-hidden="true" /><b>${part.figure}</b><span>${part.text}</span></p>`)}
    ${sum.input_tokens + sum.output_tokens > 0 && html`<p><b>${(sum.input_tokens + sum.output_tokens).toLocaleString("en")}</b><span>tokens: ${tokens(sum)}</span></p>`}
    ${spent && html`<p><b>${spent}</b><span>for models</span></p>`}</div>`;
}

/** @param {{view: TurnView}} props */
export function Facts({ view }) {
  const { turn } = view;
  return html`<dl class="turn-facts">
    <div><dt>Caller</dt><dd class="mono">${turn.caller ?? "not known"}</dd></div>
    ${view.model && html`<div><dt>Model</dt><dd class="mono">${view.model}</dd></div>`}
    ${turn.worker && html`<div><dt>Worker</dt><dd class="mono">${turn.worker}</dd></div>`}
    <div><dt>Requested</dt><dd><${Time} at=${turn.requested_at} none="not known" /></dd></div>
    <div><dt>Turn</dt><dd class="mono">${turn.id}<${Copy} text=${turn.id} label="Copy the turn's id" /></dd></div>
    ${view.trace && html`<div><dt>Trace</dt><dd class="mono">${view.trace}<${Copy} text=${view.trace} label="Copy the trace id" /></dd></div>`}
    ${view.parent_id && html`<div><dt>Called by</dt><dd><a class="mono" href=${`/turns/${encodeURIComponent(view.parent_id)}`}>${view.parent_id.slice(0, 13)}…</a></dd></div>`}
    ${turn.replay_of && html`<div><dt>Again of</dt><dd><a class="mono" href=${`/turns/${encodeURIComponent(turn.replay_of)}`}>${turn.replay_of.slice(0, 13)}…</a>
      <a href=${`/turns/${encodeURIComponent(turn.replay_of)}/compare/${encodeURIComponent(turn.id)}`}><${Icon} name="git-compare" size=${14} />Compare</a></dd></div>`}
  </dl>`;
}

/** @param {{view: TurnView}} props */
export const Fault = ({ view }) => view.fault && html`<${Banner} tone="bad"><span dir="auto">${capital(view.fault)}</span>
  <details class="fault-code"><summary>Details</summary><code class="tag">${view.turn.code ?? "failed"}</code> in turn <code>${view.turn.id}</code></details><//>`;

/** @param {{view: TurnView}} props */
export function Content({ view }) {
  const { content } = view;
  if (!content) return null;
  const kept = view.content_until && !content.expired && html`<span class="faint">forgotten <${Time} at=${view.content_until} /></span>`;
  return html`<div class="turn-content">
    <section class="card" aria-labelledby="asked"><header><h2 id="asked" class="grow">Asked</h2></header><${Asked} content=${content} /></section>
    <section class="card" aria-labelledby="answer"><header><h2 id="answer" class="grow">Answer</h2>${kept}${content.text && !content.expired && !view.fault && html`<${Copy} text=${content.text} label="Copy the answer" />`}</header>
      <${Answer} view=${view} /></section></div>`;
}

/** @param {{view: TurnView}} props */
export function Answer({ view }) {
  const { content, turn } = view;
  if (content?.expired) return html`<p class="muted"><${Icon} name="clock" /> The answer is no longer kept.</p>`;
  if (view.fault) return html`<p class="muted">There is no answer, because the turn failed.</p>`;
  if (content?.text) return html`<${Markdown} text=${content.text} />`;
  return html`<p class="muted">${isOver(turn) ? "There is no answer." : "There is no answer yet."}</p>`;
}

/** The message as text; whatever else was sent below it. @param {{content: import("../../answers").TurnContent}} props */
function Asked({ content }) {
  if (!content.asked) return html`<p class="muted">What was asked is no longer kept.</p>`;
  const { message, ...rest } = content.asked;
  const others = Object.entries(rest).filter(([, value]) => !(Array.isArray(value) && !value.length) && value !== null);
  return html`${typeof message === "string" && html`<p class="asked-text" dir="auto">${message}</p>`}
    ${others.map(([name, value]) => html`<details key=${name} class="argument" open=${typeof message !== "string"}><summary><code>${name}</code>${Array.isArray(value) && html` <span class="muted">${counted(value.length, "entry").replace("entrys", "entries")}</span>`}</summary>
      <pre tabindex="0"><code>${typeof value === "string" ? value : JSON.stringify(value, null, 2)}</code></pre></details>`)}`;
}
