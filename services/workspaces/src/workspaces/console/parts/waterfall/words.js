/**
 * What a waterfall says in words: durations, tokens and the sentence about where the time went.
 * @import { Bar } from "./tree.js"
 *
 * @typedef {object} TurnTimes Milliseconds, as `GET /turns/{id}` has them.
 * @property {number} total
 * @property {number} queued
 * @property {number} models
 * @property {number} model_calls
 * @property {number} tools
 * @property {number} tool_calls
 * @property {number} rest
 */
import { counted } from "../../lib.js";
import { duration } from "../units.js";

/** The text of a tick: all ticks of an axis have the same unit. @param {number} at @param {number} widest both in ms */
export function tickText(at, widest) {
  if (at === 0) return "0";
  if (widest < 1000) return `${Number(at.toFixed(2))} ms`;
  if (widest < 120_000) return `${Number((at / 1000).toFixed(3))} s`;
  return widest < 7_200_000 ? `${Number((at / 60_000).toFixed(2))} min` : `${Number((at / 3_600_000).toFixed(2))} h`;
}

/** "4.20 s: 100 ms waiting, 3.00 s in 2 model calls, 900 ms in 1 tool call, 200 ms other". @param {TurnTimes} times */
export function sentence(times) {
  const parts = [`${duration(times.queued)} waiting`];
  if (times.model_calls) parts.push(`${duration(times.models)} in ${counted(times.model_calls, "model call")}`);
  if (times.tool_calls) parts.push(`${duration(times.tools)} in ${counted(times.tool_calls, "tool call")}`);
  parts.push(`${duration(times.rest)} other`);
  return `${duration(times.total)}: ${parts.join(", ")}`;
}

/** "1,204 in, 87 out"; empty if the bar has no tokens. @param {Pick<Bar, "input_tokens"|"output_tokens">} bar */
export function tokens(bar) {
  if (bar.input_tokens === null && bar.output_tokens === null) return "";
  return `${(bar.input_tokens ?? 0).toLocaleString("en")} in, ${(bar.output_tokens ?? 0).toLocaleString("en")} out`;
}

/** The sums of all model calls. @param {readonly Bar[]} bars */
export function tokensOf(bars) {
  const sum = { input_tokens: 0, output_tokens: 0 };
  for (const bar of bars) {
    sum.input_tokens += bar.input_tokens ?? 0;
    sum.output_tokens += bar.output_tokens ?? 0;
  }
  return sum;
}

/** "0.0123 USD"; empty if the price is not known. @param {Pick<Bar, "cost_nanos"|"currency">} bar */
export function cost(bar) {
  if (bar.cost_nanos === null || bar.currency === null) return "";
  return `${(bar.cost_nanos / 1e9).toLocaleString("en", { maximumSignificantDigits: 3 })} ${bar.currency}`;
}

/** The sum of all calls with a price; null if they are of several currencies. @param {readonly Bar[]} bars */
export function costOf(bars) {
  const priced = bars.filter((bar) => bar.cost_nanos !== null);
  const [currency, ...others] = new Set(priced.map((bar) => bar.currency));
  if (!currency || others.length) return { cost_nanos: null, currency: null };
  return { cost_nanos: priced.reduce((sum, bar) => sum + (bar.cost_nanos ?? 0), 0), currency };
}

/** A bar in one sentence, for screen readers. @param {Bar} bar @param {string} kind the name of its kind */
export function spoken(bar, kind) {
  const parts = [`${kind}: ${bar.what}`, `after ${duration(bar.after_ms)}`];
  if (bar.took_ms !== null) parts.push(`took ${duration(bar.took_ms)}`);
  if (tokens(bar)) parts.push(`tokens ${tokens(bar)}`);
  if (cost(bar)) parts.push(`cost ${cost(bar)}`);
  if (bar.failed) parts.push("failed");
  if (bar.taken_over) parts.push("taken over by a later attempt");
  return parts.join(", ");
}
