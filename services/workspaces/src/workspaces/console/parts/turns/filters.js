// The filters above the list of turns. They live in the URL, so that a list can be linked to.
import { capital, html, useEffect, useState, valueTo } from "../../lib.js";
import { get } from "../../api.js";
import { navigate } from "../../router.js";
import { Button, Icon } from "../basic.js";
import { RANGES, STATES, pageQuery } from "./lines.js";

/** @typedef {import("./lines.js").Filter} Filter */
/** @typedef {{models: string[], agents: {team: string, agent: string, title: string, model: string | null}[]}} Callable */

/** An id of a turn. */
const ID = /^[0-9a-f]{32}$/;
const CODES = ["model_failed", "tool_unavailable", "worker_lost", "turn_timeout", "agent_failed", "agent_unreachable", "context_overflow", "iterations_exceeded", "budget_exhausted", "internal"];

/** Which agents and models there are; empty until it is known. @returns {Callable} */
export function useCallable() {
  const [known, setKnown] = useState(/** @type {Callable} */ ({ models: [], agents: [] }));
  useEffect(() => void get("/turns/models").then((/** @type {Callable} */ found) => setKnown(found), () => undefined), []);
  return known;
}

/** @param {{filter: Filter}} props */
export function Filters({ filter }) {
  const { agents } = useCallable();
  const change = (/** @type {Partial<Filter>} */ part) => navigate(`/turns${pageQuery({ ...filter, ...part })}`, { replace: true });
  const teams = [...new Set(agents.map((each) => each.team))];
  const names = agents.filter((each) => !filter.team || each.team === filter.team).map((each) => each.agent);
  const between = filter.range === "between" || (!filter.range && Boolean(filter.since || filter.until));
  return html`<form class="filters" role="search" aria-label="Turns" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
    <${Choice} label="Team" any="All teams" value=${filter.team} options=${teams} onPick=${(/** @type {string} */ team) => change({ team, agent: "" })} />
    <${Choice} label="Agent" any="All agents" value=${filter.agent} options=${[...new Set(names)]} onPick=${(/** @type {string} */ agent) => change({ agent })} />
    <${Choice} label="State" any="Any state" value=${filter.state} options=${Object.keys(STATES)} words=${(/** @type {string} */ name) => STATES[name]?.word ?? name} onPick=${(/** @type {string} */ state) => change({ state })} />
    <${Choice} label="Time" any="Any time" value=${between ? "between" : filter.range} options=${[...Object.keys(RANGES), "between"]}
      words=${(/** @type {string} */ name) => RANGES[name]?.word ?? "Between…"} onPick=${(/** @type {string} */ range) => change({ range, since: "", until: "" })} />
    <${Choice} label="Duration" any="Any duration" value=${filter.least_seconds} options=${["1", "5", "30", "120"]} words=${(/** @type {string} */ least) => `At least ${least} s`}
      onPick=${(/** @type {string} */ least_seconds) => change({ least_seconds })} />
    <${Choice} label="Error" any="Any error" value=${filter.code} options=${CODES} words=${(/** @type {string} */ code) => capital(code.replaceAll("_", " "))} onPick=${(/** @type {string} */ code) => change({ code })} />
    <${Caller} key=${filter.caller} value=${filter.caller} onPick=${(/** @type {string} */ caller) => (ID.test(caller) ? navigate(`/turns/${caller}`) : change({ caller }))} />
    ${between && html`<${Moment} label="From" value=${filter.since} onPick=${(/** @type {string} */ since) => change({ range: "between", since })} />
      <${Moment} label="Until" value=${filter.until} onPick=${(/** @type {string} */ until) => change({ range: "between", until })} />`}
    ${pageQuery(filter) && html`<${Button} kind="quiet" icon="x" onClick=${() => navigate("/turns", { replace: true })}>Clear<//>`}
  </form>`;
}

/** @param {{label: string, any: string, value: string, options: string[], words?: (name: string) => string, onPick: (value: string) => void}} props */
const Choice = ({ label, any, value, options, words = (name) => name, onPick }) => html`
  <select class=${value ? "filter chosen" : "filter"} aria-label=${label} value=${value} onChange=${valueTo(onPick)}>
    <option value="" selected=${!value}>${any}</option>
    ${[...options, ...(value && !options.includes(value) ? [value] : [])].map((each) => html`<option key=${each} value=${each} selected=${each === value}>${words(each)}</option>`)}</select>`;

/** @param {{value: string, onPick: (value: string) => void}} props */
const Caller = ({ value, onPick }) => html`<span class="search filter"><${Icon} name="search" />
  <input type="search" aria-label="Caller, or a turn's id" placeholder="Caller, or a turn's id" value=${value} onChange=${valueTo((text) => onPick(text.trim()))} /></span>`;

/** @param {{label: string, value: string, onPick: (value: string) => void}} props */
const Moment = ({ label, value, onPick }) => html`<label class="moment"><span class="muted">${label}</span>
  <input type="datetime-local" value=${value} onChange=${valueTo(onPick)} /></label>`;
