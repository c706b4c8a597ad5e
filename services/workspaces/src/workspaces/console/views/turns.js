// All turns of the platform, live: who called which agent, how long it waited and ran, and how it ended.
import { html, useEffect, useRef, useState, useTitle } from "../lib.js";
import { get, sentence } from "../api.js";
import { openStream } from "../events.js";
import { session } from "../state.js";
import { Banner, Button, Empty, Skeleton } from "../parts/basic.js";
import { Filters } from "../parts/turns/filters.js";
import { apiQuery, filterOf, merged, pageQuery, streamQuery } from "../parts/turns/lines.js";
import { Time } from "../parts/time.js";
import { NoTurns } from "../parts/turns/no_turns.js";
import { TurnTable } from "../parts/turns/turn_table.js";

/** @typedef {import("../answers").TurnLine} TurnLine */
/** @typedef {import("../answers").TurnPage} TurnPage */

const PAGE = 50;
const MOST = 500;
/** How long changes are collected before the list is drawn anew. */
const TOGETHER_MS = 100;

/** @param {{query: URLSearchParams}} props */
export default function TurnsView({ query }) {
  useTitle("Turns");
  if (session.value && !session.value.turns) return html`<${NoTurns} />`;
  return html`<${Turns} query=${query} />`;
}

/** @param {{query: URLSearchParams}} props */
function Turns({ query }) {
  const filter = filterOf(query);
  const key = pageQuery(filter);
  const list = useTurns(filter, key);
  return html`<div class="page wide">
    <header><div><h1>Turns</h1><p>Each call of an agent is a turn. The log has them as long as it is kept.</p></div><div class="row"><${Button} href="/turns/day" icon="timer">Last day<//><${Live} list=${list} /></div></header>
    <${Filters} filter=${filter} />
    ${list.error && html`<${Banner} tone="bad" action=${html`<${Button} small onClick=${list.reload}>Try again<//>`}>${list.error}<//>`}
    ${!list.lines ? !list.error && html`<${Skeleton} lines=${10} />` : !list.lines.length ? html`<${Nothing} list=${list} filtered=${key !== ""} />`
      : html`<${TurnTable} lines=${list.lines} />${list.next && html`<div class="more"><${Button} busy=${list.busy} onClick=${list.more}>Load older<//></div>`}`}
  </div>`;
}

/** Nothing was found, which is not the end of the log if there is more of it. @param {{list: ReturnType<typeof useTurns>, filtered: boolean}} props */
function Nothing({ list, filtered }) {
  if (list.next) {
    return html`<${Empty} icon="activity" title="No turn matches so far" action=${html`<${Button} busy=${list.busy} onClick=${list.more}>Search further<//>`}>
      The log was searched back to <${Time} at=${list.next} />.<//>`;
  }
  return html`<${Empty} icon="activity" title=${filtered ? "No turn matches" : "No turns yet"} action=${filtered && html`<${Button} href="/turns">Show all<//>`}>
    ${filtered ? "" : "They appear here as agents are called."}<//>`;
}

/** @param {{list: ReturnType<typeof useTurns>}} props */
const Live = ({ list }) => html`<${Button} icon=${list.paused ? "play" : "pause"} onClick=${list.toggle} aria-pressed=${list.paused}>
  ${list.paused ? (list.waiting ? `Resume, ${list.waiting} changed` : "Resume") : "Pause"}<//>`;

/** The turns that match, kept up to date unless paused. @param {import("../parts/turns/lines.js").Filter} filter @param {string} key */
function useTurns(filter, key) {
  const [page, setPage] = useState(/** @type {{lines: TurnLine[], next: string | null} | null} */ (null));
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const [paused, setPaused] = useState(false);
  const held = useRef(/** @type {Map<string, TurnLine>} */ (new Map()));
  const [waiting, setWaiting] = useState(0);
  const missed = useRef(false);
  /** What came while the list was being loaded, which may lack it. @type {{current: Map<string, TurnLine> | null}} */
  const recent = useRef(null);
  const stopped = useRef(paused);
  stopped.current = paused;
  const load = async (/** @type {string | null} */ until) => {
    const asked = apiQuery(filter, Date.now());
    asked.set("limit", String(PAGE));
    if (until) asked.set("until", until);
    return /** @type {Promise<TurnPage>} */ (get(`/turns?${asked}`));
  };
  const together = (/** @type {TurnLine[]} */ lines, /** @type {Iterable<TurnLine>} */ later) => [...later].reduce((all, line) => merged(all, line, filter.state, MOST), lines);
  const reload = async () => {
    /** @type {Map<string, TurnLine>} */
    const since = new Map();
    recent.current = since;
    try {
      const found = await load(null);
      if (recent.current !== since) return; // it is being loaded anew
      recent.current = null;
      setPage({ lines: together(found.turns, since.values()), next: found.next });
      setError("");
    } catch (fault) {
      if (recent.current === since) setError(sentence(fault));
    }
  };
  const refresh = () => {
    missed.current = stopped.current;
    if (!stopped.current) void reload();
  };
  const take = (/** @type {Iterable<TurnLine>} */ lines) => setPage((now) => now && { ...now, lines: together(now.lines, lines) });
  const timer = useRef(/** @type {ReturnType<typeof setTimeout> | undefined} */ (undefined));
  const flush = () => {
    clearTimeout(timer.current);
    timer.current = undefined;
    take(held.current.values());
    held.current = new Map();
    setWaiting(0);
  };
  useEffect(() => {
    setPage(null);
    held.current.clear();
    flush();
    void reload();
    if (filter.until) return undefined; // what happens now is not in that time
    return openStream(`/turns/events?${streamQuery(filter)}`, {
      turn: (/** @type {TurnLine} */ line) => {
        held.current.set(line.id, line);
        recent.current?.set(line.id, line);
        if (stopped.current) setWaiting(held.current.size);
        else timer.current ||= setTimeout(flush, TOGETHER_MS);
      },
      ready: refresh, // what came before it was not told
      resync: refresh,
    });
  }, [key]);
  const toggle = () => {
    flush();
    if (paused && missed.current) void reload();
    missed.current = false;
    setPaused(!paused);
  };
  const more = async () => {
    setBusy(true);
    await load(page?.next ?? null).then(
      (found) => setPage((now) => now && { lines: [...now.lines, ...found.turns.filter((line) => now.lines.every((each) => each.id !== line.id))], next: found.next }),
      (fault) => setError(sentence(fault)),
    );
    setBusy(false);
  };
  return { lines: page?.lines ?? null, next: page?.next ?? null, error, busy, paused, waiting, reload, toggle, more };
}
