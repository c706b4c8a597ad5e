// The figures of two turns, and by how much they differ.
import { html } from "../../lib.js";
import { duration } from "../units.js";
import { tokensOf } from "../waterfall/words.js";

/** @typedef {import("../../answers").TurnView} View */
/** @typedef {{name: string, old: number, new: number, show: (value: number) => string}} Figure */

const plain = (/** @type {number} */ value) => value.toLocaleString("en");

/** @param {View} view */
const stepsOf = (view) => view.bars.filter((bar) => bar.kind === "step").length;

/** @param {View} old @param {View} now @returns {Figure[]} */
function figuresOf(old, now) {
  const tokens = [tokensOf(old.bars), tokensOf(now.bars)];
  const times = (/** @type {string} */ name, /** @type {keyof View["times"]} */ key) => ({ name, old: old.times[key], new: now.times[key], show: duration });
  const counts = (/** @type {string} */ name, /** @type {number} */ one, /** @type {number} */ other) => ({ name, old: one, new: other, show: plain });
  return [
    times("In all", "total"), times("Waiting", "queued"), times("Models", "models"), times("Tools", "tools"),
    counts("Steps", stepsOf(old), stepsOf(now)), counts("Model calls", old.times.model_calls, now.times.model_calls),
    counts("Tool calls", old.times.tool_calls, now.times.tool_calls),
    counts("Tokens in", tokens[0]?.input_tokens ?? 0, tokens[1]?.input_tokens ?? 0),
    counts("Tokens out", tokens[0]?.output_tokens ?? 0, tokens[1]?.output_tokens ?? 0),
  ];
}

/** "−38 %", "+2 %", "same"; empty where there is nothing to divide by. @param {number} old @param {number} now */
export function change(old, now) {
  if (old === now) return "same";
  if (!old) return "";
  const percent = Math.abs((100 * (now - old)) / old);
  return `${now > old ? "+" : "−"}${percent < 0.5 ? percent.toPrecision(1) : Math.round(percent).toLocaleString("en")} %`;
}

/** @param {{old: View, new: View}} props */
export const Figures = ({ old, new: now }) => html`<div class="figures-frame" role="region" aria-label="Figures" tabindex="0"><table class="figures">
  <thead><tr><th scope="col">Figure</th><th scope="col" class="number">First</th><th scope="col" class="number">Again</th><th scope="col" class="number">Change</th></tr></thead>
  <tbody>${figuresOf(old, now).map((figure) => html`<tr key=${figure.name}><th scope="row">${figure.name}</th>
    <td class="number" data-title="First">${figure.show(figure.old)}</td><td class="number" data-title="Again">${figure.show(figure.new)}</td>
    <td class="number muted" data-title="Change">${change(figure.old, figure.new)}</td></tr>`)}</tbody></table></div>`;
