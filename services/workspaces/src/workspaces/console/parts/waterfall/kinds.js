// What the kinds of bars are called and which icon they have.

/** @type {Readonly<Record<import("./tree.js").BarKind, {name: string, icon: string}>>} */
export const KINDS = {
  queue: { name: "Waiting", icon: "timer" },
  attempt: { name: "Attempt", icon: "server" },
  journal: { name: "Journal", icon: "history" },
  step: { name: "Step", icon: "layers" },
  model: { name: "Model call", icon: "brain" },
  tool: { name: "Tool", icon: "wrench" },
  agent: { name: "Sub-agent", icon: "bot" },
  content: { name: "Content", icon: "file-text" },
  cancel: { name: "Cancel", icon: "circle-x" },
  outcome: { name: "Outcome", icon: "circle-check" },
};

/** The icon of a bar: an outcome has one for each way to end. @param {import("./tree.js").Bar} bar */
export function iconOf({ kind, what, failed }) {
  if (kind !== "outcome") return KINDS[kind].icon;
  return failed ? "circle-alert" : what.startsWith("cancelled") ? "circle-x" : KINDS.outcome.icon;
}

/** Bars that contain others are drawn as thin lines, so that what takes the time stands out. */
export const CONTAINERS = new Set(["attempt", "step"]);

/** Bars whose text is a name, and no sentence of its own. */
export const NAMED = new Set(["model", "tool", "agent"]);
