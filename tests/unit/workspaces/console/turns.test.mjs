// The list of turns: filters, order and bars. Run by node --test, and by test_console_functions.py.
import assert from "node:assert/strict";
import { test } from "node:test";

const parts = new URL("../../../../services/workspaces/src/workspaces/console/parts/turns/", import.meta.url);
const { apiQuery, filterOf, merged, pageQuery, partsOf, streamQuery, wholeOf, widest } = await import(`${parts}lines.js`);

const line = (id, state, at, more = {}) => ({
  id, team: "demo", agent: "harper", tool: null, caller: null, state, code: null, requested_at: `2026-11-23T10:00:${at}Z`,
  ended_at: null, queued_ms: null, took_ms: null, attempts: 0, worker: null, model: null, replay_of: null, asked: null,
  conversation: null, conversation_id: null, workspace_id: null, ...more,
});

test("a filter survives the URL, and empty parts leave no trace there", () => {
  const filter = filterOf(new URLSearchParams("team=demo&state=failed&caller=peer%3A10&nonsense=1"));
  assert.equal(pageQuery(filter), "?team=demo&state=failed&caller=peer%3A10");
  assert.deepEqual(filterOf(new URLSearchParams(pageQuery(filter))), filter);
  assert.equal(pageQuery(filterOf(new URLSearchParams())), "");
});

test("a range becomes a time, and a time that cannot be read is left out", () => {
  const now = Date.parse("2026-11-23T10:00:00Z");
  const filter = filterOf(new URLSearchParams("range=1h&agent=harper"));
  assert.equal(String(apiQuery(filter, now)), "agent=harper&since=2026-11-23T09%3A00%3A00.000Z");
  assert.equal(String(streamQuery(filter)), "agent=harper");
  const between = filterOf(new URLSearchParams("range=between&since=2026-11-23T10:00&until=yesterday"));
  assert.deepEqual([...apiQuery(between, now).keys()], ["since"]);
});

test("a new state of a turn replaces the old one, in the order of the list", () => {
  const lines = [line("c", "running", "03"), line("b", "running", "02"), line("a", "running", "01")];
  const ended = line("a", "completed", "01", { ended_at: "2026-11-23T10:00:09Z" });
  assert.deepEqual(merged(lines, ended, "", 9).map((each) => each.id), ["a", "c", "b"]);
  assert.deepEqual(merged(lines, ended, "running", 9).map((each) => each.id), ["c", "b"]);
  assert.deepEqual(merged(lines, line("d", "waiting", "04"), "", 3).map((each) => each.id), ["d", "c", "b"]);
  assert.deepEqual(merged([], ended, "", 9), [ended]);
  assert.equal(merged([line("a", "running", "01", { asked: "Hello" })], ended, "", 9)[0]?.asked, "Hello");
});

test("a bar has what waited and what ran; a running one grows", () => {
  const over = line("a", "completed", "00", { queued_ms: 100, took_ms: 400, attempts: 1 });
  assert.deepEqual(partsOf(over, 800, 0), { queued: 12.5, ran: 37.5, cut: false });
  assert.deepEqual(partsOf(over, 200, 0), { queued: 50, ran: 50, cut: true });
  const runs = line("b", "running", "00", { queued_ms: 100, attempts: 1 });
  assert.equal(wholeOf(runs, Date.parse("2026-11-23T10:00:02Z")), 2000);
  const waits = line("c", "waiting", "00");
  assert.deepEqual(partsOf(waits, 1000, Date.parse("2026-11-23T10:00:01Z")), { queued: 100, ran: 0, cut: false });
  assert.equal(partsOf(line("d", "failed", "00"), 1000, 0), null);
});

test("one very long turn does not make all other bars vanish", () => {
  const many = Array.from({ length: 20 }, (_, n) => line(`${n}`, "completed", "00", { took_ms: n === 7 ? 600_000 : 1000 + n }));
  assert.ok(widest(many, 0) < 1100);
  assert.equal(widest([], 0), 1);
});

const { differences } = await import(`${parts}diff.js`);

test("two texts differ word by word, and can be put together again", () => {
  const found = differences("The rows were skipped on Tuesday.", "The rows were imported on Tuesday, all.");
  assert.deepEqual(found, [
    { in: "same", text: "The rows were " }, { in: "old", text: "skipped" }, { in: "new", text: "imported" },
    { in: "same", text: " on " }, { in: "old", text: "Tuesday." }, { in: "new", text: "Tuesday, all." },
  ]);
  assert.deepEqual(differences("same", "same"), [{ in: "same", text: "same" }]);
  assert.deepEqual(differences("", "new"), [{ in: "new", text: "new" }]);
  for (const [one, other] of [["a b c a b b a", "c b a b a c"], ["x\n".repeat(3000), "y\n".repeat(3000)], ["", ""]]) {
    const pieces = differences(one, other);
    assert.equal(pieces.filter((piece) => piece.in !== "new").map((piece) => piece.text).join(""), one);
    assert.equal(pieces.filter((piece) => piece.in !== "old").map((piece) => piece.text).join(""), other);
  }
});

const { change } = await import(`${parts}figures.js`);

test("a figure that differs by little is not the same", () => {
  assert.deepEqual([change(226, 226), change(226, 225), change(225, 226)], ["same", "−0.4 %", "+0.4 %"]);
  assert.deepEqual([change(100, 62), change(50, 51), change(0, 3)], ["−38 %", "+2 %", ""]);
});
