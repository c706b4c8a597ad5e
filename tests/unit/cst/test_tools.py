"""Calls that are left to the caller: tools, calls with options, what is reachable, and `Json`."""

import asyncio
from typing import Any

import pytest
from tests.unit.cst.cases import STANDARD_FUNCTIONS, read_type

from pallas_cst import types as t
from pallas_cst.check import Checked, check
from pallas_cst.evaluate import Calling, RunFailed, evaluate
from pallas_cst.faults import Faulty
from pallas_cst.functions import Function, Functions
from pallas_cst.json_schema import object_schema, parameters_of, schema_of, type_of
from pallas_cst.parse import parse
from pallas_cst.reach import reach
from pallas_cst.signatures import read_type as type_of_text
from pallas_cst.values import Unfit, Value, failed, from_json, plain, succeeded, to_json, zero_value


def tool(name: str, needed: int | None = None, returns: str = "Int", **parameters: str) -> Function:
    given = tuple((each, type_of_text(kind)) for each, kind in parameters.items())
    return Function(name, given, type_of_text(returns), f"demo/{name}", "demo", tool=True, needed=needed)


TOOLS = [
    tool("search", 1, query="String", limit="Optional<Int>", score="Optional<Float>"),
    tool("move", from_="Float", to="Float"),
    tool("keep", 1, "Json", order="{ id: Int, note: Optional<String> }", tags="Optional<List<String>>"),
    tool("anything", returns="Json", value="Json"),
    tool("twice", x="Int"),
]
FUNCTIONS = Functions([*STANDARD_FUNCTIONS, *TOOLS])


def checked(source: str) -> Checked:
    return check(parse(source), FUNCTIONS)


def codes(source: str) -> list[str]:
    with pytest.raises(Faulty) as refused:
        checked(source)
    return [fault.code for fault in refused.value.faults]


class Caller:
    """Makes calls: `made` has the place, name and input of each. `answers` are results by name."""

    def __init__(self, **answers: Value) -> None:
        self.made: list[tuple[str, str, dict[str, Any]]] = []
        self.answers = answers

    async def __call__(self, calling: Calling) -> Value:
        self.made.append((calling.place, calling.function.name, calling.function.input_of(calling.arguments)))
        await asyncio.sleep(0)
        if calling.compute is not None:
            return await calling.compute()
        if calling.function.name in self.answers:
            return self.answers[calling.function.name]
        if calling.fallback is not None:
            return await calling.fallback()
        return calling.arguments[0]


async def run(source: str, caller: Caller, **inputs: Any) -> dict[str, Any]:
    program = checked(source)
    values = {name: from_json(value, program.inputs[name]) for name, value in inputs.items()}
    outputs = await evaluate(program, values, caller)
    return {name: to_json(value, program.outputs[name]) for name, value in outputs.items()}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("call", "sent"),
    [
        ('search("x")', {"query": "x"}),
        ('search("x", 3)', {"query": "x", "limit": 3}),
        ('search("x", 3 when false, 1)', {"query": "x", "score": 1.0}),
        ('search({ query: "x", score: 1, more: true })', {"query": "x", "score": 1.0}),
        ("move(1, 2.5)", {"from_": 1.0, "to": 2.5}),
        ("move({ to: 2, from_: 1.0 })", {"from_": 1.0, "to": 2.0}),
        ("keep({ id: 1 })", {"order": {"id": 1}}),
        ('keep({ id: 1, note: "n" }, [])', {"order": {"id": 1, "note": "n"}, "tags": []}),
        ('keep({ order: { id: 1 }, tags: ["a"] })', {"order": {"id": 1}, "tags": ["a"]}),
        ("anything({ value: [1, 2] })", {"value": {"value": [1, 2]}}),
        ("anything(1 when false)", {"value": None}),
    ],
)
async def test_a_tool_gets_its_arguments_as_an_object(call: str, sent: dict[str, Any]) -> None:
    caller = Caller(search=1, move=1, keep=1, anything=1)
    await run(f"x = {call} out x", caller)
    assert caller.made == [("1", call.partition("(")[0], sent)]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("search()", "E015"),
        ('search("a", 1, 1.0, 2)', "E015"),
        ("move(1)", "E015"),
        ("search(1)", "E010"),
        ("search({ limit: 1 })", "E010"),
        ("keep({ note: 1 })", "E010"),
        ("anything((x: Int) => x)", "E010"),
        ("round(1)", "E010"),
    ],
)
def test_what_does_not_fit_a_tool_is_refused(call: str, code: str) -> None:
    assert codes(f"x = {call} out x") == [code]


def test_a_lambda_does_not_leave_the_program() -> None:
    assert codes("f = (x: Int) => x out f") == ["E015"]
    assert codes('f = (x: Int) => x y = "${f}" out y') == ["E015"]


@pytest.mark.anyio
async def test_places_are_the_numbers_of_calls_and_items() -> None:
    source = "in a: List<Int> x = map(a, (y) => twice(twice(y) with retry: 1)) z = twice(0) out x out z"
    caller = Caller()
    assert await run(source, caller, a=[5, 6]) == {"x": [5, 6], "z": 0}
    assert sorted(place for place, _, _ in caller.made) == ["2.0", "2.1", "3.0", "3.1", "4"]


@pytest.mark.anyio
async def test_a_lambda_that_has_a_name_has_a_place_for_each_call_of_it() -> None:
    source = "f = (y: Int) => twice(y) a = list-sum(map([7], f)) b = list-sum(map([8], f)) c = a + b out c"
    caller = Caller()
    assert await run(source, caller) == {"c": 15}
    assert sorted(place for place, _, _ in caller.made) == ["1.3.0", "1.5.0"]


@pytest.mark.anyio
async def test_items_are_called_at_the_same_time_up_to_a_bound() -> None:
    program, full, running = checked("in a: List<Int> x = list-sum(map(a, (y) => twice(y))) out x"), asyncio.Event(), 0

    async def call(calling: Calling) -> Value:
        nonlocal running
        running += 1
        assert running <= 1000
        if running == 1000:
            full.set()
        await full.wait()
        running -= 1
        return calling.arguments[0]

    assert await evaluate(program, {"a": list(range(1500))}, call) == {"x": sum(range(1500))}


@pytest.mark.anyio
async def test_a_call_with_options_can_be_computed_and_has_its_fallback() -> None:
    caller = Caller()
    source = "x = add(1, 2) with retry: 1 y = twice(1) with fallback: twice(x), retry: 2 out x out y"
    assert await run(source, caller) == {"x": 3, "y": 3}
    assert [place for place, _, _ in caller.made] == ["1", "2", "3"]


@pytest.mark.anyio
@pytest.mark.parametrize("answer", [succeeded(5), failed("it failed")])
async def test_a_wrapped_call_returns_what_became_of_it(answer: Value) -> None:
    source = 'x = twice(1) with on_error: wrap y = x.value ?? 0 z = x.error ?? "" out x out y out z'
    outputs = await run(source, Caller(twice=answer))
    assert outputs == {"x": answer, "y": answer["value"] or 0, "z": answer["error"] or ""}
    assert codes('x = twice(1) with on_error: wrap, fallback: "a" out x') == ["E017"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (
            "{ a: String, b: List<Int>, c: Optional<Int>, d: { e: Float } }",
            {"a": "", "b": [], "c": None, "d": {"e": 0}},
        ),
        ("Int | Boolean", False),
        ("Map<String, Int>", {}),
        ("Map<Int, Int>", []),
        ("Json", None),
    ],
)
def test_a_result_that_is_not_there_is_zero(kind: str, value: Value) -> None:
    assert zero_value(read_type(kind)) == value


@pytest.mark.anyio
async def test_what_does_not_wait_for_a_missing_input_is_computed() -> None:
    source = "in a: Int in b: Int x = twice(a) y = if (a > 0) x else b unused = twice(b) also = twice(9) out x out y"
    program, caller = checked(source), Caller()
    reached = reach(program, ["b"])
    assert (reached.outputs, reached.pending) == (("x",), ("y",))
    assert await evaluate(program, {"a": 1}, caller, missing=["b"]) == {"x": 1}
    assert sorted(sent["x"] for _, _, sent in caller.made) == [1, 9]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("expression", "json", "result"),
    [
        ("add(j, 1)", 2, 3),
        ("j + 1", 2, 3),
        ("1.5 + j", 2, 3.5),
        ("j > 1", 2, True),
        ('"a" == j', "a", True),
        ("if (j.a and true) 1 else 2", {"a": True}, 1),
        ("list-sum(map([1, 2], (x) => j))", 4, 8),
        ("round(j)", 2, 2),
        ("j.a ?? 1", {}, 1),
        ("add(1, 2) with fallback: j", "no", 3),
        ('"${j}"', {"a": [1]}, "{a: [1]}"),
        ("[j, 1]", "x", ["x", 1]),
    ],
)
async def test_json_is_checked_where_it_is_used(expression: str, json: Any, result: Any) -> None:
    assert await run(f"in j: Json x = {expression} out x", Caller(), j=json) == {"x": result}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("add(j, 1)", "expected Int, found a String"),
        ("j + 1", "expected Int, found a String"),
        ("if (j) 1 else 2", "expected Boolean, found a String"),
        ("not j", "expected Boolean, found a String"),
        ("list-sum(filter([1], (x) => j))", "expected Boolean, found a String"),
        ("list-sum([j])", "[0]: expected Int, found a String"),
        ("twice(j)", "expected Int, found a String"),
        ("keep({ order: { id: j } })", "order.id: expected Int, found a String"),
    ],
)
async def test_json_of_another_type_fails_at_its_place(expression: str, why: str) -> None:
    with pytest.raises(RunFailed) as refused:
        await run(f"in j: Json x = {expression} out x", Caller(), j="text")
    assert refused.value.message == why


SCHEMA = {
    "$ref": "#/$defs/Input",
    "$defs": {
        "Input": {
            "type": "object",
            "properties": {
                "limit": {"type": "integer"},
                "query text": {"enum": ["a", "b"]},
                "score": {"type": ["number", "null"]},
                "tree": {"$ref": "#/$defs/Tree"},
                "any": True,
                "by": {"type": "object", "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
            },
            "required": ["score", "query text"],
        },
        "Tree": {
            "properties": {"name": {"format": "uri", "type": "string"}, "next": {"$ref": "#/$defs/Tree"}},
            "required": ["name"],
        },
    },
}


def test_the_parameters_of_a_tool_are_those_of_its_schema() -> None:
    parameters, needed = parameters_of(SCHEMA)
    assert needed == 2
    assert {name: str(kind) for name, kind in parameters} == {
        "query text": "String",
        "score": "Optional<Float>",
        "limit": "Optional<Int>",
        "tree": "Optional<{ name: String, next: Optional<Json> }>",
        "any": "Optional<Json>",
        "by": "Optional<Map<String, Int | String>>",
    }
    assert list(dict(parameters)) == ["query text", "score", "limit", "tree", "any", "by"]


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({}, "Json"),
        (None, "Json"),
        ({"not": {"type": "string"}}, "Json"),
        ({"type": "object"}, "Json"),
        ({"$ref": "http://elsewhere"}, "Json"),
        ({"$ref": "#"}, "Json"),
        ({"type": "array"}, "List<Json>"),
        ({"const": 1}, "Int"),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, "Optional<Int>"),
        ({"type": ["integer", "number", "string"]}, "Float | String"),
        ({"type": "string", "nullable": True}, "Optional<String>"),
        ({"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {}]}, "{ a: String }"),
        ({"anyOf": [{"type": "string"}, {}]}, "Json"),
    ],
)
def test_a_schema_is_a_type(schema: Any, kind: str) -> None:
    assert type_of(schema) == read_type(kind)


@pytest.mark.parametrize(
    "kind",
    [
        "Int | String",
        "List<Map<String, Optional<Float>>>",
        "{ a: Optional<Int>, b: Map<Int, Boolean> | String }",
        "{ a: Int } | { a: Int, b: Json }",
    ],
)
def test_the_schema_of_a_type_has_that_type(kind: str) -> None:
    assert type_of(schema_of(read_type(kind))) == read_type(kind)
    assert object_schema({"a": read_type(kind)})["required"] == ["a"]


def test_a_schema_that_is_made_to_do_harm_is_json() -> None:
    doubled = {f"a{n}": {"properties": {key: {"$ref": f"#/$defs/a{n + 1}"} for key in "xy"}} for n in range(60)}
    assert type_of({"$defs": doubled, "$ref": "#/$defs/a0"}) == t.JSON
    deep: dict[str, Any] = {}
    for _ in range(10_000):
        deep = {"items": deep, "type": "array"}
    assert type_of(deep) == t.JSON
    assert type_of({"enum": list(range(200_000)), "properties": [], "required": 1}) == t.INT


def test_a_number_that_json_cannot_write_is_not_sent() -> None:
    with pytest.raises(Unfit, match=r"^a\[0\]"):
        plain([float("nan")], read_type("List<Float>"), "a")
    assert plain({"a": None, "b": [(1, "x")]}, read_type("{ a: Optional<Int>, b: Map<Int, String> }")) == {
        "b": [[1, "x"]]
    }
