// The agents that can be picked in a workspace, with their health as it changes, and which one is picked.
import { computed, signal } from "../lib.js";
import { get, path, sentence } from "../api.js";
import { on } from "../events.js";
import { keep, read } from "../state.js";

/** @typedef {import("../answers").AgentView} AgentView */

/** @param {{instance_id: string, server_id: string}} agent */
export const keyOf = (agent) => `${agent.instance_id}/${agent.server_id}`;

export class Agents {
  /** null until it is loaded. @type {import("../lib.js").Signal<import("../answers").Picker | null>} */
  picker = signal(null);
  /** Why it is not loaded, or "". */
  error = signal("");
  picked = signal("");
  wanted = "";
  agent = computed(() => this.picker.value?.agents.find((each) => keyOf(each) === this.picked.value) ?? null);

  /** @param {string} workspace */
  constructor(workspace) {
    this.workspace = workspace;
    this.ends = [
      ...["agents", "resumed", "resync"].map((kind) => on(kind, () => void this.load())),
      on("workspace", ({ id }) => id === workspace && void this.load()),
      on("health", (status) => this.changeHealth(status)),
    ];
  }

  close() {
    for (const end of this.ends) end();
  }

  async load() {
    try {
      const picker = /** @type {import("../answers").Picker} */ (await get(path`/workspaces/${this.workspace}/agents`));
      this.picker.value = picker;
      this.error.value = "";
      if (!this.agent.value) this.choose(this.wanted || (read(`agent.${this.workspace}`) ?? ""));
    } catch (fault) {
      this.error.value = sentence(fault);
    }
  }

  /** Pick this agent. If it is not there: one to begin with that is well, else any that is. @param {string} key */
  choose(key) {
    this.wanted = key;
    const all = this.picker.value?.agents ?? [];
    const well = all.filter((each) => each.health.status !== "error");
    const found = all.find((each) => keyOf(each) === key) ?? well.find((each) => each.entry) ?? well[0] ?? all[0];
    this.picked.value = found ? keyOf(found) : "";
  }

  /** Pick it, now and when the workspace is opened again. @param {AgentView} agent */
  pick(agent) {
    this.picked.value = keyOf(agent);
    keep(`agent.${this.workspace}`, keyOf(agent));
  }

  /** @param {import("../answers").AgentStatus} status */
  changeHealth(status) {
    const picker = this.picker.value;
    if (!picker) return;
    const agents = picker.agents.map((each) => (keyOf(each) === keyOf(status) ? { ...each, health: status.health } : each));
    this.picker.value = { ...picker, agents };
  }
}
