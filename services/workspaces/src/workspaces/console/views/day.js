// The last day: which turns were slow or dear, and which agents fail.
import { counted, html, useTitle } from "../lib.js";
import { get } from "../api.js";
import { session } from "../state.js";
import { Button, Empty, Icon } from "../parts/basic.js";
import { Loading, useLoaded } from "../parts/load.js";
import { Table } from "../parts/table.js";
import { Time } from "../parts/time.js";
import { NoTurns } from "../parts/turns/no_turns.js";
import { TurnTable } from "../parts/turns/turn_table.js";
import { cost } from "../parts/waterfall/words.js";

/** @typedef {import("../answers").TurnDay} Day */
/** @typedef {import("../answers").DearTurn} Dear */
/** @typedef {import("../answers").FailingAgent} Failing */

export default function DayView() {
  useTitle("Last day");
  const loaded = useLoaded(() => /** @type {Promise<Day>} */ (get("/turns/day")), [], []);
  if (session.value && !session.value.turns) return html`<${NoTurns} />`;
  const day = loaded.data;
  return html`<div class="page wide">
    <nav aria-label="Breadcrumb" class="crumbs"><a href="/turns"><${Icon} name="arrow-left" size=${14} />Turns</a></nav>
    <header><div><h1>Last day</h1>${day && html`<p>${counted(day.turns, "turn")}, of which ${day.failed.toLocaleString("en")} failed${day.shortened && html`, since <${Time} at=${day.since} />: there were too many for all of the day`}.</p>`}</div>
      <${Button} icon="refresh-cw" onClick=${loaded.reload}>Read again<//></header>
    ${!day ? html`<${Loading} loaded=${loaded} lines=${8} />` : !day.turns ? html`<${Empty} icon="activity" title="No turns in the last day" />` : html`
      ${day.failing.length > 0 && html`<div class="stack-small"><h2>Failing</h2><${FailingTable} failing=${day.failing} /></div>`}
      <div class="stack-small"><h2>Slowest</h2><${TurnTable} lines=${day.slowest} label="Slowest" /></div>
      ${day.dearest.length > 0 && html`<div class="stack-small"><h2>Dearest</h2><${DearTable} dearest=${day.dearest} /></div>`}`}
  </div>`;
}

/** @param {{failing: readonly Failing[]}} props */
const FailingTable = ({ failing }) => html`<${Table} label="Failing" rows=${failing} keyOf=${(/** @type {Failing} */ one) => one.latest} columns=${[
  { title: "Agent", cell: (/** @type {Failing} */ one) => html`<a href=${`/turns?team=${one.team}&agent=${one.agent}&code=${one.code}`}><span class="faint">${one.team}/</span>${one.agent}</a>` },
  { title: "Why", cell: (/** @type {Failing} */ one) => one.error ?? one.code },
  { title: "Turns", number: true, cell: (/** @type {Failing} */ one) => one.turns.toLocaleString("en") },
  { title: "Latest", cell: (/** @type {Failing} */ one) => html`<a href=${`/turns/${one.latest}`}>Show</a>` },
]} />`;

/** @param {{dearest: readonly Dear[]}} props */
const DearTable = ({ dearest }) => html`<${Table} label="Dearest" rows=${dearest} keyOf=${(/** @type {Dear} */ one) => one.turn.id + one.currency} href=${(/** @type {Dear} */ one) => `/turns/${one.turn.id}`} columns=${[
  { title: "Agent", cell: (/** @type {Dear} */ { turn }) => html`<span class="faint">${turn.team}/</span>${turn.agent}` },
  { title: "Asked", cell: (/** @type {Dear} */ { turn }) => turn.asked ?? "–" },
  { title: "Price", number: true, cell: cost },
]} />`;
