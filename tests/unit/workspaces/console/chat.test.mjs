// Forms for questions of agents, drafts, which agents come first, and colours for code. Run by node --test, and by test_console_functions.py.
import assert from "node:assert/strict";
import { test } from "node:test";

const console_ = new URL("../../../../services/workspaces/src/workspaces/console/", import.meta.url);
const { contentOf, faultOf, fieldsOf } = await import(`${console_}chat/fields.js`);
const { faultOfPaste } = await import(`${console_}chat/drafts.js`);
const { fewOf, worstOf } = await import(`${console_}parts/worst.js`);
const { highlighted } = await import(`${console_}text/highlight.js`);

const schema = {
  type: "object",
  required: ["city", "nights"],
  properties: {
    city: { type: "string", title: "City", minLength: 2 },
    nights: { type: "integer", minimum: 1, default: 2 },
    budget: { type: "number" },
    mail: { type: "string", format: "email" },
    at: { type: "string", format: "date-time" },
    room: { type: "string", enum: ["s", "d"], enumNames: ["Single", "Double"] },
    view: { oneOf: [{ const: "sea", title: "Sea" }] },
    extras: { type: "array", items: { type: "string", enum: ["wine", "owl"] } },
    breakfast: { type: "boolean", default: true },
  },
};

test("each kind of property becomes its control", () => {
  const fields = fieldsOf(schema);
  assert.deepEqual(fields.map((field) => field.kind), ["text", "number", "number", "email", "datetime-local", "choice", "choice", "choices", "checkbox"]);
  assert.deepEqual(fields.map((field) => field.required), [true, true, ...Array(7).fill(false)]);
  assert.deepEqual(fields.map((field) => field.start), ["", 2, "", "", "", "", "", [], true]);
  assert.deepEqual(fields[5].options, [{ value: "s", title: "Single" }, { value: "d", title: "Double" }]);
  assert.equal(fields[1].limits.step, 1);
  assert.deepEqual(fieldsOf(null), []);
});

test("what was left empty is left out, and numbers are numbers", () => {
  const values = { city: "Athens", nights: "3", budget: "", mail: "", at: "", room: "d", view: "", extras: [], breakfast: false };
  assert.deepEqual(contentOf(fieldsOf(schema), values), { city: "Athens", nights: 3, room: "d", breakfast: false });
});

test("what is needed, and what is no whole number, is said", () => {
  const [city, nights] = fieldsOf(schema);
  assert.equal(faultOf(city, "", null), "This is needed.");
  assert.equal(faultOf(nights, "1.5", null), "A whole number is needed.");
  assert.equal(faultOf(nights, "0", { validity: { valid: false }, validationMessage: "too few" }), "too few");
  assert.equal(faultOf(nights, "2", { validity: { valid: true } }), "");
});

test("no choice is an answer, unless the schema wants some", () => {
  const choices = (bounds, required) =>
    fieldsOf({ required: required ? ["extras"] : [], properties: { extras: { ...schema.properties.extras, ...bounds } } });
  const said = (bounds, value, required = true) => faultOf(choices(bounds, required)[0], value, null);
  assert.equal(said({}, []), "");
  assert.equal(said({ minItems: 0 }, []), "");
  assert.deepEqual(contentOf(choices({}, true), { extras: [] }), { extras: [] });
  assert.equal(said({ minItems: 1 }, []), "Choose at least 1.");
  assert.equal(said({ minItems: 2 }, ["wine"]), "Choose at least 2.");
  assert.equal(said({ minItems: 2 }, ["wine"], false), "Choose at least 2, or none.");
  assert.equal(said({ minItems: 2 }, [], false), "");
  assert.equal(said({ maxItems: 1 }, ["wine", "owl"]), "Choose at most 1.");
});

test("code is escaped whatever its colours", () => {
  const escape = (text) => text.replaceAll("<", "&lt;");
  assert.equal(highlighted("a <b>", "", escape), "a &lt;b>");
  assert.equal(highlighted('if "<b>" # <c>', "python", escape),
    '<span class="c-keyword">if</span> <span class="c-string">"&lt;b>"</span> <span class="c-comment"># &lt;c></span>');
  assert.equal(highlighted("x = 'unfinished <b>", "js", escape), "x = <span class=\"c-string\">'unfinished &lt;b></span>");
  assert.equal(highlighted("constructor < 1", "constructor", escape), "constructor &lt; 1");
});

test("a text that could not be sent cannot be pasted", () => {
  assert.equal(faultOfPaste("a".repeat(100_000), "b".repeat(100_000)), "");
  assert.match(faultOfPaste("a", "b".repeat(200_000)), /would have 200,001 characters; it may have 200,000/);
});

test("agents that are not well come first where not all are shown", () => {
  const agents = ["ok", "unknown", "degraded", "ok", "error"].map((status, id) => ({ id, health: { status } }));
  assert.deepEqual(fewOf([...agents, { id: 5, health: null }], 3).map((each) => each.id), [4, 2, 1]);
  assert.deepEqual(fewOf(agents, 5).map((each) => each.id), [0, 1, 2, 3, 4]);
  assert.ok(worstOf(agents) < worstOf(agents.slice(0, 4)));
});
