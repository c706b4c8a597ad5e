"""What the engine's cases do not say: places of faults, all faults at once, demand, options, values."""

import asyncio
from typing import Any

import pytest
from tests.unit.cst.cases import STANDARD_FUNCTIONS, read_type

from pallas_cst import types as t
from pallas_cst.canonical import structural_hash
from pallas_cst.check import Checked, check
from pallas_cst.evaluate import Calling, RunFailed, evaluate
from pallas_cst.faults import Faulty, Lines
from pallas_cst.functions import Function, Functions
from pallas_cst.parse import parse
from pallas_cst.pretty import pretty
from pallas_cst.values import Some, Unfit, Value, from_json, text_of, to_json

REMOTE = [
    Function(name, (("x", t.INT),), t.INT, f"demo.{name}", "demo.tools")
    for name in ("fetch", "store", "fails", "hangs")
]
FUNCTIONS = Functions([*STANDARD_FUNCTIONS, *REMOTE])


def checked(source: str) -> Checked:
    return check(parse(source), FUNCTIONS)


def faults_of(source: str) -> list[tuple[str, int, int]]:
    with pytest.raises(Faulty) as refused:
        checked(source)
    lines = Lines(source)
    return [(fault.code, *lines.position(fault.span.start)) for fault in refused.value.faults]


def test_a_syntax_error_is_where_the_parser_came_no_further() -> None:
    source = "in a: Int\nb = add(a,\n  )\nout b"
    assert faults_of(source) == [("E020", 3, 3)]
    with pytest.raises(Faulty, match="expected a value, found '\\)'"):
        parse(source)


def test_a_program_needs_an_output() -> None:
    with pytest.raises(Faulty, match="expected an output"):
        parse("in a: Int")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "in r: Json x = r.type out x",
            "found 'type', which is a reserved word (a field of this name is written \"type\")",
        ),
        ("in o: { in: String } out o", "found 'in', which is a reserved word"),
        ("in x: Int y = if x > 1 then 1 else 0 out y", "expected '(', found 'x'"),
        ("in x: Int y = (x > 1 then) out y", "found 'then'"),
        ("in x: Int y = x % 2 out y", "found '%' (the remainder is modulo(a, b))"),
        ("x = -1.5 out x", "a Float is written without a sign: 0.0 - 1.5"),
        ("in x: List out x", "did you mean List<T>?"),
        ("in x: Map out x", "did you mean Map<K, V>?"),
        ('in s: String y = s + "x" out y', "joined by concat(a, b)"),
        ("in f: Float y = f > 1.5 out y", "it compares values of Int"),
        ("in s: String y = Trim(s) out y", "(did you mean stdlib.string.trim?)"),
        ("in x: Int y = demo.tools.fech(x) out y", "(did you mean demo.tools.fetch?)"),
        ("in x: Int y = nothing-like-it(x) out y", "Undefined function: nothing-like-it"),
    ],
)
def test_faults_say_what_was_found_and_what_may_have_been_meant(source: str, said: str) -> None:
    with pytest.raises(Faulty) as refused:
        checked(source)
    assert said in refused.value.faults[0].message


@pytest.mark.anyio
async def test_fields_of_any_name_are_read_as_json_strings() -> None:
    source = """in r: { "type": String, "a \\"b\\"": { "in": Int } }
        x = r."type" y = r."a \\"b\\""."in" z = r["type"] w = { "out": y, "type": x } v = w."out"
        out x out y out z out w out v"""
    record: Value = {"type": "t", 'a "b"': {"in": 3}}
    assert pretty(parse(pretty(parse(source)))) == pretty(parse(source))
    found = await evaluate(checked(source), {"r": record}, _never)
    assert found == {"x": "t", "y": 3, "z": {"type": "t"}, "w": {"out": 3, "type": "t"}, "v": 3}
    assert checked(f"in x: {checked(source).inputs['r']} out x").inputs["x"] == checked(source).inputs["r"]
    for wrong in ('in r: Json x = r."\\q" out x', 'in r: Json x = r."\\ud800" out x', 'in r: Json x = r."a out x'):
        assert faults_of(wrong)[0][0] == "E020"


async def _never(_: Calling) -> Value:
    raise AssertionError


def test_what_a_lambda_gives_fits_the_array_of_a_tool() -> None:
    total = Function("total", (("xs", t.ListOf(t.INT)),), t.INT, "t/a/total", "t.a", tool=True)
    source = (
        "in xs: List<Int> y = t.a.total(filter(xs, (x) => x > 1)) z = t.a.total({ xs: map(xs, (x) => x) }) out y out z"
    )
    check(parse(source), Functions([*STANDARD_FUNCTIONS, total]))
    assert not t.fits(t.SeqOf(t.INT), t.ListOf(t.INT))


def test_all_faults_are_found_and_none_follows_from_another() -> None:
    source = "in a: Strin\nb = add(a, 1)\nc = nope(b)\nd = c + 1\ne = add(true, 1)\nout f"
    assert faults_of(source) == [("E003", 1, 7), ("E002", 3, 5), ("E010", 5, 9), ("E001", 6, 5)]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("in a: Int\nb = fetch(a) with timeout: 0s\nout b", "E016"),
        ('in a: Int\nb = fetch(a) with fallback: "x"\nout b', "E017"),
        ("in a: Int\nb = fetch(a, a)\nout b", "E015"),
        ("use nowhere\nin a: Int\nout a", "E004"),
        ("in a: { x: Int }\nb = a.y\nout b", "E007"),
        ("in a: { x: Int }\nb = a[y]\nout b", "E006"),
        ("in a: { x: Int }\nin b: List<Int>\nc = a + b\nout c", "E014"),
        ("type A = Int + String\nin a: A\nout a", "E012"),
        ("in a: Int\nb = a when a\nout b", "E010"),
        ("in a: Boolean\nb = a < a\nout b", "E013"),
        ("in a: Int\nb = a == 1.0\nout b", "E010"),
    ],
)
def test_faults_have_the_engines_codes(source: str, code: str) -> None:
    assert [fault[0] for fault in faults_of(source)] == [code]


def test_options_that_have_no_effect_are_warned_of() -> None:
    found = checked("in a: Int\nb = fetch(a) with delay: 1s, retry: 11, backoff: linear, batch: 5\nout b").warnings
    assert [warning.message.split(":")[0] for warning in found] == ["retry", "batch has no effect outside streaming"]
    [warning] = checked('in x: Int @sink("kafka") out x').warnings
    assert "@sink has no effect" in warning.message
    [warning] = checked('in a: Int\nb = fetch(a) with cache_backend: "shared"\nout b').warnings
    assert "without cache" in warning.message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("in a: Int\nx = a + 1\nout x", "# a comment\nin a: Int x = (a + 1)\nout x"),
        ("in a: Int\ny = a\nx = y\nout x", "in a: Int\nz = a\nx = z\nout x"),
        ("in a: Int\nx = demo.tools.fetch(a)\nout x", "use demo.tools as d\nin a: Int\nx = d.fetch(a)\nout x"),
        (
            "in a: Int\nx = fetch(a) with retry: 1, timeout: 5s\nout x",
            "in a: Int\nx = fetch(a) with timeout: 5s, retry: 1\nout x",
        ),
    ],
)
def test_programs_that_mean_the_same_have_one_hash(one: str, other: str) -> None:
    assert structural_hash(checked(one)) == structural_hash(checked(other))


def test_programs_that_differ_have_different_hashes() -> None:
    sources = [
        "in a: Int\nx = a + 1\nout x",
        "in a: Int\nx = a + 2\nout x",
        "in a: Int\nx = a + 1\nout a",
        "in b: Int\nx = b + 1\nout x",
        "in a: Int\nx = add(a, 1)\nout x",
    ]
    assert len({structural_hash(checked(source)) for source in sources}) == len(sources)


@pytest.mark.parametrize(
    "text",
    [
        "x = (if (c) a else b) + 1",
        "x = (a ?? b) when c and not d",
        "x = { a: (f(x) with retry: 4), retry: 4 }",
        "x = f((g(x) with cache: 5s), y) with fallback: 1 + 2, throttle: 10/1min, lazy: true, priority: high",
        "x = (a + b) * c - (d - e)",
        'x = "a \\"b\\" ${a + 1} \\${c}"',
        "x = match v { { value } -> value, is Int -> 1, _ -> 2 }",
        "x = map(items, (y: Int) => y.z[a, b])",
        "x = f(a) with window: sliding(5s, 1s), join: buffer(1s)",
        "x = not not a < b",
        "x = 1.5 + 10000000000000000000000.0",
    ],
)
def test_a_program_is_written_with_no_more_brackets_than_needed(text: str) -> None:
    assert pretty(parse(f"{text}\nout x")) == f"{text}\nout x\n"


class Remote:
    """Calls of functions that are elsewhere: `calls` in order. That many are answered `together`."""

    def __init__(self, together: int = 1) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.cancelled = 0
        self._together = asyncio.Barrier(together)

    async def __call__(self, calling: Calling) -> Value:
        function, arguments = calling.function, calling.arguments
        self.calls.append((function.name, arguments[0]))
        try:
            await self._together.wait()
            if function.name == "fails":
                raise LookupError("it failed")
            if function.name == "hangs":
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return arguments[0] + 1


async def run(source: str, together: int = 1, **inputs: Any) -> tuple[dict[str, Any], Remote]:
    program, remote = checked(source), Remote(together)
    values = {name: from_json(value, program.inputs[name]) for name, value in inputs.items()}
    outputs = await evaluate(program, values, remote)
    return {name: to_json(value, program.outputs[name]) for name, value in outputs.items()}, remote


@pytest.mark.anyio
async def test_what_is_not_needed_is_not_called() -> None:
    source = "in a: Int\nx = fetch(1)\ny = fetch(2)\nz = if (a > 0) x else y\nout z"
    outputs, remote = await run(source, a=1)
    assert (outputs, remote.calls) == ({"z": 2}, [("fetch", 1)])


@pytest.mark.anyio
async def test_a_call_whose_result_nobody_needs_is_made_once() -> None:
    _, remote = await run("in a: Int\nunused = store(a)\nout a", a=1)
    assert remote.calls == [("store", 1)]


@pytest.mark.anyio
async def test_calls_run_at_the_same_time_and_once_each() -> None:
    source = "in a: Int\nx = fetch(1)\ny = fetch(2)\nz = add(add(x, y), fetch(3) + x)\nout z\nout x"
    outputs, remote = await run(source, together=3, a=1)
    assert outputs == {"z": 2 + 3 + 4 + 2, "x": 2}
    assert len(remote.calls) == 3


@pytest.mark.anyio
async def test_a_failure_cancels_what_still_runs() -> None:
    program, remote = checked("x = fails(1)\ny = hangs(2)\nz = x + y\nout z"), Remote(together=2)
    with pytest.raises(LookupError, match="it failed"):
        await evaluate(program, {}, remote)
    assert remote.cancelled == 1


@pytest.mark.anyio
async def test_a_chain_of_a_thousand_variables_is_computed() -> None:
    chain = "".join(f"x{n + 1} = add(x{n}, 1)\n" for n in range(1000))
    outputs, _ = await run(f"in x0: Int\n{chain}out x1000", x0=0)
    assert outputs == {"x1000": 1000}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("9223372036854775807 + 1", -(2**63)),
        ("-7 / 2", -3),
        ("modulo(-7, 2)", -1),
        ("round(2.5)", 3),
        ("round(0.0 - 2.5)", -2),
        ("1.5 + 1", 2.5),
        ("1.0 / 0", None),
        ('"${1.0} ${10000000.0} ${[1, 2]} ${true}"', "1.0 1.0E7 [1, 2] true"),
        ("(1 when false) ?? 2", 2),
        ("((1 when false) when true) ?? (2 when true)", None),
        ("all([1, 2], (x) => x > 0 and x < 3)", True),
        ('split("a..b", ".")', ["a", "", "b"]),
    ],
)
async def test_values_are_those_of_the_engine(expression: str, result: Any) -> None:
    program = checked(f"x = {expression}\nout x")
    value = (await evaluate(program, {}, Remote()))["x"]
    assert value == result or (result is None and value in (None, float("inf")))


@pytest.mark.anyio
async def test_a_function_that_cannot_compute_names_its_place() -> None:
    program = checked("in a: Int\nx = 1 +\n  a / 0\nout x")
    with pytest.raises(RunFailed, match="division by zero") as failed:
        await evaluate(program, {"a": 1}, Remote())
    assert failed.value.span.start == len("in a: Int\nx = 1 +\n  ")


@pytest.mark.parametrize(
    ("kind", "json"),
    [
        ("Map<String, Int>", {"a": 1}),
        ("Map<Int, String>", [[1, "a"]]),
        ("Optional<Int>", None),
        ("List<{ a: Optional<Float> }>", [{"a": None}, {"a": 1.5}]),
        ("Int | String", {"tag": "String", "value": "x"}),
        ("{ a: Int } | { a: Int, b: Int }", {"tag": "{ a: Int, b: Int }", "value": {"a": 1, "b": 2}}),
    ],
)
def test_json_becomes_a_value_and_json_again(kind: str, json: Any) -> None:
    assert to_json(from_json(json, read_type(kind)), read_type(kind)) == json


@pytest.mark.parametrize(
    ("kind", "json", "why"),
    [
        ("{ a: List<Int> }", {"a": [1, "2"]}, "a[1]: expected Int, found a String"),
        ("{ a: Int }", {}, "a: the field is missing"),
        ("Int", True, "expected Int, found a Boolean"),
        ("Int", 2**63, "expected Int, found a number"),
        ("Int | String", {"tag": "Float", "value": 1}, "the tag 'Float' is no member"),
        ("Map<Int, Int>", {"1": 1}, "expected Map<Int, Int>, found an object"),
    ],
)
def test_json_that_does_not_fit_is_refused_with_its_place(kind: str, json: Any, why: str) -> None:
    with pytest.raises(Unfit) as refused:
        from_json(json, read_type(kind))
    assert why in str(refused.value)


def test_an_optional_in_an_optional_keeps_what_it_has() -> None:
    kind = t.OptionalOf(t.OptionalOf(t.INT))
    assert to_json(Some(None), kind) is None
    assert text_of(Some(None)) == ""
