// What an answer took: its steps, tokens and price. They are read from the log once somebody sees the answer.
import { counted, html, useEffect, useState } from "../lib.js";
import { get, path } from "../api.js";
import { session } from "../state.js";
import { Icon } from "../parts/basic.js";
import { duration } from "../parts/units.js";
import { cost, costOf, tokensOf } from "../parts/waterfall/words.js";

/** @typedef {import("../answers").TurnView} Turn */

/** The latest turns that were read: those that have ended never change. @type {Map<string, Promise<Turn | null>>} */
const known = new Map();
const MOST_KNOWN = 200;

/** A turn, or null if it cannot be read now. @param {string} id @returns {Promise<Turn | null>} */
function turnOf(id) {
  const asked = known.get(id) ?? get(path`/turns/${id}`).then((found) => /** @type {Turn} */ (found), () => {
    known.delete(id);
    return null;
  });
  known.set(id, asked);
  for (const first of known.keys()) if (known.size > MOST_KNOWN) known.delete(first);
  return asked;
}

/** The turn of an answer as soon as the element is seen; null until then, and where there is no log of it.
 * @param {import("../answers").MessageView} view @param {{current: HTMLElement | null}} element @param {boolean} over @returns {Turn | null} */
export function useLog({ turn_id: id }, element, over) {
  const [turn, setTurn] = useState(/** @type {Turn | null} */ (null));
  useEffect(() => {
    setTurn(null);
    if (!id || !over || !session.value?.turns || !element.current) return undefined;
    let current = true;
    const seen = new IntersectionObserver(([entry]) => {
      if (!entry?.isIntersecting) return;
      seen.disconnect();
      void turnOf(id).then((found) => current && setTurn(found));
    });
    seen.observe(element.current);
    return () => {
      current = false;
      seen.disconnect();
    };
  }, [id, over]);
  return turn;
}

const KINDS = /** @type {Record<string, string>} */ ({ tool: "wrench", agent: "bot" });

/** Tools and agents that were called, folded. @param {{turn: Turn | null}} props */
export function Steps({ turn }) {
  const steps = turn?.bars.filter((bar) => KINDS[bar.kind]) ?? [];
  if (!steps.length) return null;
  return html`<details class="steps-done"><summary><${Icon} name="chevron-right" size=${12} />${counted(steps.length, "step")}</summary>
    <ol>${steps.map((bar) => html`<li key=${bar.id} class=${bar.failed ? "failed" : ""}><${Icon} name=${KINDS[bar.kind] ?? "wrench"} size=${14} />
      <span class="grow">${bar.what}${bar.failed && ` ${bar.note || "failed"}`}</span><span class="faint">${duration(bar.took_ms)}</span></li>`)}</ol></details>`;
}

/** "5.12 s · 1,204 tokens · 0.012 USD". @param {{turn: Turn | null}} props */
export function Took({ turn }) {
  if (!turn) return null;
  const { input_tokens, output_tokens } = tokensOf(turn.bars);
  const parts = [duration(turn.times.total), input_tokens + output_tokens > 0 && counted(input_tokens + output_tokens, "token"), cost(costOf(turn.bars))];
  return html`<span class="took faint" title="Duration, tokens and price of the models">${parts.filter(Boolean).join(" · ")}</span>`;
}
