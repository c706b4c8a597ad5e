// The geometry, the rows and the words of the waterfall. Run by node --test, and by test_console_functions.py.
import assert from "node:assert/strict";
import { test } from "node:test";

const parts = new URL("../../../../services/workspaces/src/workspaces/console/parts/waterfall/", import.meta.url);
const { allCollapsed, collapsedAtFirst, grafted, rowsOf } = await import(`${parts}tree.js`);
const { iconOf } = await import(`${parts}kinds.js`);
const { reactionTo } = await import(`${parts}keys.js`);
const { lengthOf, place, selected, ticks, wholeRange, zoomed } = await import(`${parts}scale.js`);
const { stretches } = await import(`${parts}strip.js`);
const { duration, size } = await import(new URL("../units.js", parts));
const { cost, costOf, sentence, spoken, tickText, tokens, tokensOf } = await import(`${parts}words.js`);

let last = 0;
const bar = (kind, after_ms, took_ms, more = {}) => ({
  id: ++last, parent: null, kind, what: kind, note: "", after_ms, took_ms, attempt: 1,
  failed: false, taken_over: false, turn_id: null, input_tokens: null, output_tokens: null, cost_nanos: null, currency: null, ...more,
});

function turn() {
  const queue = bar("queue", 0, 100);
  const attempt = bar("attempt", 100, 900);
  const step = bar("step", 110, 880, { parent: attempt.id });
  const model = bar("model", 120, 500, { parent: step.id, input_tokens: 1204, output_tokens: 87 });
  const tool = bar("tool", 620, 300, { parent: step.id, failed: true });
  const outcome = bar("outcome", 1000, null);
  return { bars: [queue, attempt, step, model, tool, outcome], queue, attempt, step, model, tool, outcome };
}

test("rows are in the order of a tree, with what a tree grid needs", () => {
  const { bars, model } = turn();
  const rows = rowsOf(bars, new Set());
  assert.deepEqual(rows.map((row) => [row.bar.kind, row.level]), [
    ["queue", 1], ["attempt", 1], ["step", 2], ["model", 3], ["tool", 3], ["outcome", 1],
  ]);
  const row = rows.find((each) => each.bar === model);
  assert.deepEqual([row.position, row.siblings, row.expandable], [1, 2, false]);
});

test("a collapsed bar says how many it hides, and that one of them failed", () => {
  const { bars, attempt } = turn();
  const rows = rowsOf(bars, new Set([attempt.id]));
  assert.equal(rows.length, 3);
  assert.deepEqual([rows[1].expanded, rows[1].hidden, rows[1].hidesFailure], [false, 3, true]);
  assert.deepEqual(rowsOf(bars, allCollapsed(bars)).map((each) => each.level), [1, 1, 1]);
});

test("a bar whose parent is missing is a root, and one that is its own parent ends", () => {
  const orphan = bar("tool", 0, 1, { parent: 99_999 });
  const itself = bar("tool", 0, 1);
  itself.parent = itself.id;
  assert.deepEqual(rowsOf([orphan, itself], new Set()).map((row) => row.level), [1, 1]);
});

test("a turn with thousands of bars begins with few rows", () => {
  const attempt = bar("attempt", 0, 9000);
  const bars = [attempt];
  for (let step = 0; step < 40; step++) {
    const one = bar("step", step, 1, { parent: attempt.id });
    bars.push(one, ...Array.from({ length: 100 }, () => bar("tool", step, 1, { parent: one.id })));
  }
  assert.equal(rowsOf(bars, collapsedAtFirst(bars)).length, 41);
  assert.equal(collapsedAtFirst(bars.slice(0, 50)).size, 0);
});

test("a bar's place is a share of the range, and its label is where room is", () => {
  const range = { from: 0, to: 1000 };
  assert.deepEqual(place(bar("model", 250, 500), range, 0), { x: 25, width: 50, open: false, moment: false, label: "inside" });
  assert.equal(place(bar("tool", 10, 50), range, 0).label, "after");
  assert.equal(place(bar("tool", 900, 50), range, 0).label, "before");
  assert.equal(place(bar("tool", 2000, 50), range, 0), null);
  assert.deepEqual(place(bar("model", 0, 1000), { from: 500, to: 750 }, 0), { x: 0, width: 100, open: false, moment: false, label: "inside" });
});

test("what has not ended reaches to now, and a moment has no width", () => {
  const range = { from: 0, to: 1000 };
  assert.deepEqual(place(bar("tool", 100, null), range, 600), { x: 10, width: 50, open: true, moment: false, label: "inside" });
  const outcome = place(bar("outcome", 1000, null), range, 600);
  assert.deepEqual([outcome.x, outcome.width, outcome.moment], [100, 0, true]);
  assert.equal(lengthOf([bar("tool", 100, null), bar("tool", 300, 50)], 200), 350);
});

test("ticks are round and within the range", () => {
  assert.deepEqual(ticks({ from: 0, to: 1000 }).map((tick) => tick.at), [0, 200, 400, 600, 800, 1000]);
  assert.deepEqual(ticks({ from: 0, to: 4237 }, 6).map((tick) => tick.at), [0, 1000, 2000, 3000, 4000]);
  assert.deepEqual(ticks({ from: 350, to: 620 }, 6).map((tick) => tick.at), [350, 400, 450, 500, 550, 600]);
  for (const span of [0.3, 1, 7, 93, 1234, 59_000, 8_640_000]) {
    const found = ticks({ from: 0, to: span });
    assert.ok(found.length >= 2 && found.length <= 7, `${span}: ${found.length}`);
  }
});

test("the axis of a running turn grows in jumps and always has room", () => {
  assert.deepEqual(wholeRange(0, true), { from: 0, to: 1000 });
  const ends = new Set();
  for (let length = 0; length < 20_000; length += 50) {
    const { to } = wholeRange(length, true);
    assert.ok(to >= length * 1.08);
    ends.add(to);
  }
  assert.ok(ends.size <= 14);
  assert.deepEqual(wholeRange(0, false), { from: 0, to: 1 });
});

test("zooming keeps its center and stays within the turn", () => {
  const whole = { from: 0, to: 1000 };
  assert.deepEqual(zoomed(whole, whole, 0.5, 500), { from: 250, to: 750 });
  assert.deepEqual(zoomed({ from: 0, to: 500 }, whole, 4, 0), whole);
  assert.deepEqual(zoomed({ from: 600, to: 1000 }, whole, 2, 1000), { from: 200, to: 1000 });
  assert.equal(zoomed({ from: 0, to: 1.5 }, whole, 0.1, 0).to, 1);
  assert.deepEqual(selected(whole, 0.75, 0.25), { from: 250, to: 750 });
  assert.equal(selected(whole, 0.5, 0.505), null);
});

test("the overview covers the turn without gaps, the innermost first", () => {
  const { bars } = turn();
  const found = stretches(bars, 1000);
  assert.deepEqual(found.map((each) => [each.doing, each.from, each.to]), [
    ["queue", 0, 100], ["other", 100, 120], ["model", 120, 620], ["tool", 620, 920], ["other", 920, 1000],
  ]);
  const parallel = stretches([bar("model", 0, 100), bar("tool", 20, 30), bar("tool", 40, 30)], 100);
  assert.deepEqual(parallel.map((each) => [each.doing, each.from, each.to]), [["model", 0, 20], ["tool", 20, 70], ["model", 70, 100]]);
  assert.deepEqual(stretches([], 0), []);
});

test("durations, ticks and tokens read well", () => {
  const shown = [0, 0.4, 12, 999.4, 999.6, 4237, 42_300, 59_960, 192_000, 7_500_000].map(duration);
  assert.deepEqual(shown, ["0 ms", "0.4 ms", "12 ms", "999 ms", "1.00 s", "4.24 s", "42.3 s", "1 min 00 s", "3 min 12 s", "2 h 05 min"]);
  assert.deepEqual([duration(null), size(999), size(1_400_000)], ["–", "999 B", "1.4 MB"]);
  assert.deepEqual([tickText(0, 5000), tickText(500, 5000), tickText(500, 900), tickText(90_000, 600_000)], ["0", "0.5 s", "500 ms", "1.5 min"]);
  const { bars, model } = turn();
  assert.equal(tokens(model), "1,204 in, 87 out");
  assert.equal(tokens(bar("tool", 0, 1)), "");
  assert.deepEqual(tokensOf(bars), { input_tokens: 1204, output_tokens: 87 });
});

test("costs are summed over one currency, and are left out where there is no price", () => {
  const priced = (cost_nanos, currency) => bar("model", 0, 1, { cost_nanos, currency });
  const bars = [priced(1_234_567_000, "USD"), priced(75_000, "USD"), bar("model", 0, 1)];
  assert.deepEqual(bars.map(cost), ["1.23 USD", "0.000075 USD", ""]);
  assert.deepEqual(costOf(bars), { cost_nanos: 1_234_642_000, currency: "USD" });
  assert.equal(cost(costOf([...bars, priced(1, "EUR")])), "");
  assert.equal(cost(costOf([priced(0, "USD")])), "0 USD");
  assert.match(spoken(priced(75_000, "USD"), "Model"), /cost 0.000075 USD$/);
});

test("the summary is the sentence that the command line prints", () => {
  const times = { total: 4200, queued: 100, models: 3000, model_calls: 2, tools: 900, tool_calls: 1, rest: 200 };
  assert.equal(sentence(times), "4.20 s: 100 ms waiting, 3.00 s in 2 model calls, 900 ms in 1 tool call, 200 ms other");
  assert.equal(sentence({ ...times, tool_calls: 0 }), "4.20 s: 100 ms waiting, 3.00 s in 2 model calls, 200 ms other");
  assert.equal(spoken(turn().tool, "Tool"), "Tool: tool, after 620 ms, took 300 ms, failed");
});

test("arrow keys walk and fold the tree, and go no further than its ends", () => {
  const { bars, queue, attempt, step, model, tool, outcome } = turn();
  const open = rowsOf(bars, new Set());
  assert.deepEqual(reactionTo("ArrowDown", open, queue.id), { focus: attempt.id });
  assert.deepEqual(reactionTo("ArrowUp", open, queue.id), { focus: queue.id });
  assert.deepEqual(reactionTo("End", open, queue.id), { focus: outcome.id });
  assert.deepEqual(reactionTo("PageDown", open, queue.id), { focus: outcome.id });
  assert.deepEqual(reactionTo("ArrowRight", open, attempt.id), { focus: step.id });
  assert.deepEqual(reactionTo("ArrowLeft", open, attempt.id), { collapse: attempt.id });
  assert.deepEqual(reactionTo("ArrowLeft", open, tool.id), { focus: step.id });
  assert.deepEqual(reactionTo("ArrowRight", open, model.id), {});
  const closed = rowsOf(bars, new Set([attempt.id]));
  assert.deepEqual(reactionTo("ArrowRight", closed, attempt.id), { expand: attempt.id });
  assert.deepEqual(reactionTo("*", closed, queue.id), { expandAll: [attempt.id] });
  assert.deepEqual([reactionTo("f", open, tool.id), reactionTo("x", open, tool.id)], [{ zoom: "bar" }, {}]);
  assert.deepEqual(reactionTo("ArrowDown", open, 99_999), {});
});

test("the turn of a sub-agent is drawn inside the bar that called it", () => {
  const call = bar("agent", 500, 400, { turn_id: "child" });
  assert.deepEqual([rowsOf([call], new Set())[0].expandable, rowsOf([call], new Set())[0].expanded], [true, false]);
  const child = turn();
  const all = [call, ...grafted(child.bars, call, 0)];
  const rows = rowsOf(all, new Set());
  assert.deepEqual(rows.map((row) => [row.bar.kind, row.level, row.bar.after_ms]), [
    ["agent", 1, 500], ["queue", 2, 500], ["attempt", 2, 600], ["step", 3, 610], ["model", 4, 620], ["tool", 4, 1120],
  ]);
  assert.equal(new Set(all.map((each) => each.id)).size, all.length);
  assert.ok(all.slice(1).every((each) => each.id < 0));
});

test("an outcome shows how the turn ended", () => {
  const outcome = (what, failed = false) => iconOf(bar("outcome", 1, null, { what, failed }));
  assert.deepEqual([outcome("completed"), outcome("failed (timeout)", true), outcome("cancelled")], ["circle-check", "circle-alert", "circle-x"]);
  assert.equal(iconOf(bar("tool", 1, 1, { failed: true })), "wrench");
});
