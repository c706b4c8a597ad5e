/**
 * Lines of turns: which are shown, in which order, and how long their bars are. Nothing here knows the page.
 *
 * @typedef {import("../../answers").TurnLine} TurnLine
 * @typedef {import("../basic.js").Tone} Tone
 *
 * @typedef {object} Filter As it stands in the URL; empty: everything.
 * @property {string} team
 * @property {string} agent
 * @property {string} state
 * @property {string} caller
 * @property {string} code of a failure
 * @property {string} least_seconds how long it took at least
 * @property {string} range the name of one of RANGES
 * @property {string} since local time, as an input of type datetime-local has it
 * @property {string} until
 */

/** @type {Readonly<Record<string, {word: string, tone: Tone}>>} */
export const STATES = {
  waiting: { word: "Waiting", tone: "idle" },
  running: { word: "Running", tone: "busy" },
  completed: { word: "Completed", tone: "ok" },
  failed: { word: "Failed", tone: "bad" },
  cancelled: { word: "Cancelled", tone: "idle" },
  input_required: { word: "Asks for input", tone: "warn" },
};

/** Minutes. @type {Readonly<Record<string, {word: string, minutes: number}>>} */
export const RANGES = {
  "15m": { word: "Last 15 minutes", minutes: 15 },
  "1h": { word: "Last hour", minutes: 60 },
  "24h": { word: "Last 24 hours", minutes: 1440 },
  "7d": { word: "Last 7 days", minutes: 10_080 },
};

const FIELDS = /** @type {const} */ (["team", "agent", "state", "caller", "code", "least_seconds", "range", "since", "until"]);

/** @param {TurnLine} line */
export const isOver = (line) => line.state !== "waiting" && line.state !== "running";

/** @param {URLSearchParams} query @returns {Filter} */
export const filterOf = (query) =>
  /** @type {Filter} */ (Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""])));

/** The query of the page, without what is empty. @param {Filter} filter */
export function pageQuery(filter) {
  const query = new URLSearchParams(FIELDS.filter((name) => filter[name]).map((name) => [name, filter[name]]));
  return query.size ? `?${query}` : "";
}

/** The query of the API. @param {Filter} filter @param {number} now milliseconds since 1970 */
export function apiQuery(filter, now) {
  const query = streamQuery(filter);
  const minutes = RANGES[filter.range]?.minutes;
  if (minutes) query.set("since", new Date(now - minutes * 60_000).toISOString());
  for (const name of /** @type {const} */ (["since", "until"])) {
    const at = new Date(filter[name]);
    if (filter[name] && !minutes && !Number.isNaN(at.getTime())) query.set(name, at.toISOString());
  }
  return query;
}

/** The query of the stream of events, which has no times. @param {Filter} filter */
export const streamQuery = (filter) =>
  new URLSearchParams(FIELDS.slice(0, 6).filter((name) => filter[name]).map((name) => [name, filter[name]]));

/** By what the list is sorted: the end, else the request. @param {TurnLine} line */
const timeOf = (line) => line.ended_at ?? line.requested_at ?? "";

/** The lines with a new state of one of them. A turn that has left the wanted state is dropped.
 * @param {readonly TurnLine[]} lines @param {TurnLine} line @param {string} state "" for any @param {number} most @returns {TurnLine[]} */
export function merged(lines, line, state, most) {
  const others = lines.filter((each) => each.id !== line.id);
  const { asked, conversation, conversation_id, workspace_id } = lines.find((each) => each.id === line.id) ?? line; // which the stream does not know
  line = line.asked ? line : { ...line, asked, conversation, conversation_id, workspace_id };
  if (state && line.state !== state) return others;
  const place = others.findIndex((each) => timeOf(each) < timeOf(line));
  return others.toSpliced(place < 0 ? others.length : place, 0, line).slice(0, most);
}

/** How long a turn has taken in all, in milliseconds; null if the log does not say. @param {TurnLine} line @param {number} now */
export function wholeOf(line, now) {
  if (line.took_ms !== null) return line.took_ms;
  return line.requested_at && !isOver(line) ? Math.max(0, now - Date.parse(line.requested_at)) : null;
}

/** What the full width of a bar stands for: nine of ten turns fit. @param {readonly TurnLine[]} lines @param {number} now */
export function widest(lines, now) {
  const known = lines.map((line) => wholeOf(line, now)).filter((whole) => whole !== null).sort((one, other) => one - other);
  return Math.max(known[Math.ceil(known.length * 0.9) - 1] ?? 0, 1);
}

/** The parts of a bar in percent of the width; `cut`: it is longer than that.
 * @param {TurnLine} line @param {number} width in milliseconds @param {number} now */
export function partsOf(line, width, now) {
  const whole = wholeOf(line, now);
  if (whole === null) return null;
  const queued = Math.min(whole, line.queued_ms ?? (line.attempts ? 0 : whole));
  const share = (/** @type {number} */ ms) => Math.min(100, (100 * ms) / width);
  return { queued: share(queued), ran: Math.max(0, share(whole) - share(queued)), cut: whole > width * 1.001 };
}
