// Points in time and durations, as people read them.
import { html, signal } from "../lib.js";

/** The time, twice a minute. */
const now = signal(Date.now());
setInterval(() => document.hidden || (now.value = Date.now()), 30_000);

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const UNITS = /** @type {[Intl.RelativeTimeFormatUnit, number][]} */ ([["day", 86_400], ["hour", 3_600], ["minute", 60]]);

/** "5 min. ago", and it goes on. The tooltip has the point in time. @param {{at: string | null | undefined, none?: string}} props */
export function Time({ at, none = "never" }) {
  if (!at) return html`<span class="muted">${none}</span>`;
  return html`<time datetime=${at} title=${full.format(new Date(at))}>${ago(at, Math.max(now.value, Date.now()))}</time>`;
}

/** The time of day; of another day its date as well. @param {{at: string}} props */
export function Clock({ at }) {
  const date = new Date(at);
  const today = date.toDateString() === new Date(now.value).toDateString();
  const text = today ? clock.format(date) : `${day.format(date)}, ${clock.format(date)}`;
  return html`<time datetime=${at} title=${full.format(date)}>${text}</time>`;
}

/** @param {string} at @param {number} from milliseconds */
function ago(at, from) {
  const seconds = Math.round((new Date(at).getTime() - from) / 1000);
  if (seconds < -14 * 86_400) return day.format(new Date(at));
  for (const [unit, size] of UNITS) if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  return "just now";
}
