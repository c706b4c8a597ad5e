// Loading again and again. Run by node --test, and by test_console_functions.py.
import assert from "node:assert/strict";
import { test } from "node:test";

const parts = new URL("../../../../services/workspaces/src/workspaces/console/parts/", import.meta.url);
const { repeated } = await import(`${parts}repeated.js`);

/** Loads that end when they are told to, and what was shown. */
function loads() {
  const asked = [];
  const shown = [];
  const load = () => new Promise((answer, fail) => asked.push({ answer, fail }));
  return { asked, shown, ...repeated(load, (found) => shown.push(found), (fault) => shown.push(fault.message)) };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test("many wishes while one request runs become one more request, and each answer is shown", async () => {
  const { asked, shown, reload } = loads();
  const all = [reload(), reload(), reload()];
  assert.equal(asked.length, 1);
  asked[0].answer("first");
  await settled();
  assert.equal(asked.length, 2);
  asked[1].fail(new Error("away"));
  await Promise.all(all);
  assert.deepEqual(shown, ["first", "away"]);
  void reload();
  assert.equal(asked.length, 3);
});

test("an answer that comes after the end is not shown, and nothing more is asked", async () => {
  const { asked, shown, reload, end } = loads();
  void reload();
  void reload();
  end();
  asked[0].answer("late");
  await settled();
  assert.deepEqual([asked.length, shown], [1, []]);
});

test("a restart does not wait for a request on a dead connection", async () => {
  const { asked, shown, reload, restart } = loads();
  void reload();
  const again = restart();
  assert.equal(asked.length, 2);
  asked[1].answer("new");
  await again;
  asked[0].answer("old");
  await settled();
  assert.deepEqual(shown, ["new"]);
});
