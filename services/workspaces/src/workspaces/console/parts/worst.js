// Which of several agents needs attention first.

/** @typedef {{health?: {status: string} | null}} Known */

/** States of health, the worst first. */
export const ORDER = ["error", "degraded", "unknown", "ok"];

/** The place of an agent in ORDER. @param {Known} agent */
export const placeOf = ({ health }) => ORDER.indexOf(health?.status ?? "unknown");

/** The place of the worst of them. @param {readonly Known[]} agents */
export const worstOf = (agents) => Math.min(...agents.map(placeOf));

/** At most so many of them, the worst first if some are left out. @template {Known} T @param {readonly T[]} agents @param {number} most */
export const fewOf = (agents, most) =>
  agents.length <= most ? agents : agents.toSorted((one, other) => placeOf(one) - placeOf(other)).slice(0, most);
