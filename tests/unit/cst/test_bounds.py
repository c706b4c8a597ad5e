"""A run does only so much, lets others work meanwhile, and fails with a place in the program."""

import asyncio
import json
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from tests.unit.cst.cases import STANDARD_FUNCTIONS, read_type
from tests.waiting import within_cpu

from pallas_cst import types as t
from pallas_cst.check import check
from pallas_cst.evaluate import Calling, Limits, RunFailed, evaluate
from pallas_cst.faults import Faulty, diagnostics
from pallas_cst.functions import Function, Functions
from pallas_cst.json_schema import Room, parameters_of, type_of
from pallas_cst.parse import parse
from pallas_cst.values import Unfit, Value, from_json, plain, to_json
from pallas_cst.work import Memory

REMOTE = Function("remote", (("x", read_type("Int")),), read_type("Int"), "demo.remote", "demo")
FUNCTIONS = Functions([*STANDARD_FUNCTIONS, REMOTE])


async def call(calling: Calling) -> Value:
    compute = calling.compute or calling.fallback
    return 1 if compute is None else await compute()


async def run(source: str, limits: Limits | None = None, **inputs: Value) -> dict[str, Value]:
    return await evaluate(check(parse(source), FUNCTIONS), inputs, call, limits=limits or Limits())


def doubled(first: str, link: str, times: int = 40) -> str:
    """Variables that are made of the one before."""
    links = "".join(f"x{n + 1} = {link.replace('#', f'x{n}')}\n" for n in range(times))
    return f"x0 = {first}\n{links}out x{times}"


HUGE = {
    "text": doubled('"aaaaaaaa"', "concat(#, #)"),
    "interpolation": doubled('"aaaaaaaa"', '"${#}${#}"'),
    "replacement": doubled('"aaaaaaaa"', 'replace(#, "a", #)'),
    "empty replacement": doubled('"aaaaaaaa"', 'replace(#, "", #)'),
    "list": doubled("[1, 2]", "list-concat(#, #)"),
    "join": doubled('"aaaaaaaa"', 'join(split(#, ""), #)'),
    "list in a list": doubled('["aaaa"]', "[#, #]", 30),
    "merge": "in a: List<{ x: String }> in b: { y: String } c = a + b out c",
}


@pytest.mark.anyio
@pytest.mark.parametrize("kind", HUGE)
async def test_a_value_that_would_be_too_large_is_not_made(kind: str) -> None:
    inputs: dict[str, Value] = {"a": [{"x": "x"}] * 1000, "b": {"y": "y" * 20_000}} if kind == "merge" else {}
    with pytest.raises(RunFailed, match="larger than 16777216 bytes"):
        await run(HUGE[kind], **inputs)


@pytest.mark.anyio
async def test_characters_of_a_large_text_are_too_large_a_list() -> None:
    with pytest.raises(RunFailed, match="larger than"):
        await run('in a: String b = split(a, "") out b', a="a" * 2_000_000)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "source",
    [
        "in a: List<Int> b = map(a, (x) => list-sum(map(a, (y) => x + y))) out b",
        "in a: List<Int> b = filter(a, (x) => list-contains(a, x)) out b",
        'in a: List<Int> b = filter(a, (x) => "${a}" == "") out b',
    ],
)
async def test_a_run_that_takes_too_many_steps_fails_at_its_place(source: str) -> None:
    with pytest.raises(RunFailed, match="more than 100000 steps") as failed:
        await run(source, Limits(steps=100_000), a=list(range(10_000)))
    assert source[failed.value.span.start : failed.value.span.end] in source[source.index("=>") :]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "source",
    [
        "in a: List<Int> b = filter(a, (x) => x > 1 and x < 10) out b",
        "\n".join(
            ["in a: List<Int>", *(f"b{n} = list-sum(map([{n}, 1], (x) => x + {n}))\nout b{n}" for n in range(1000))]
        ),
    ],
    ids=["one value", "many values"],
)
async def test_others_work_while_a_program_is_computed(source: str) -> None:
    rounds = 0

    async def work() -> None:
        nonlocal rounds
        while True:
            rounds += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(work())
    await run(source, a=list(range(20_000)))
    others.cancel()
    assert rounds > 5  # one for each 5 ms


@pytest.mark.anyio
async def test_large_values_are_computed() -> None:
    orders = [{"id": n, "note": "x" * 20} for n in range(30_000)]
    source = """in orders: List<{ id: Int, note: String }>
        ids = orders.id notes = orders[note] marked = notes + { mark: true } total = list-sum(ids)
        text = string-length("${notes}") chars = join(split(join(orders.note, ","), "x"), "y")
        out marked out total out text out chars"""
    found = await run(source, orders=orders)
    assert found["marked"][-1] == {"note": "x" * 20, "mark": True}
    assert (found["total"], found["text"]) == (sum(range(30_000)), len("{note: }, ") * 30_000 + 20 * 30_000)
    assert len(found["chars"]) == 21 * 30_000 - 1


DEEP = {
    "calls": "add(1, " * 98 + "a" + ")" * 98,
    "options": "(add(1, " * 49 + "a" + ") with retry: 1)" * 49,
    "fallbacks": "remote(1) with fallback: " * 49 + "a",
    "ifs": "if (a < 0) 1 else " * 98 + "1",
    "branches": "branch { true -> " * 98 + "1" + ", otherwise -> 2 }" * 98,
    "texts": '"${' * 98 + "a" + '}"' * 98,
    "lists": "[" * 98 + "1" + "]" * 98,
    "matches": "match 1 { _ -> " * 98 + "1" + " }" * 98,
    "lambdas": "list-sum(map([1], (x) => " * 33 + "x" + "))" * 33,
    "brackets": "1 + (" * 98 + "a" + ")" * 98,
}


@pytest.mark.anyio
@pytest.mark.parametrize("kind", DEEP)
async def test_a_program_as_deep_as_can_be_is_computed(kind: str) -> None:
    await run(f"in a: Int b = {DEEP[kind]} out b", a=1)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("first", "link", "last", "result"),
    [
        ("a", " + a", "", 10_001),
        ("(a when false)", " ?? (a when false)", " ?? 7", 7),
        ("a > 0", " and a > 0", "", True),
        ("not ", "not ", "true", False),
        ('"', "${a}", '"', "1" * 10_000),
    ],
)
async def test_a_long_chain_is_computed(first: str, link: str, last: str, result: Value) -> None:
    assert await run(f"in a: Int b = {first}{link * 10_000}{last} out b", a=1) == {"b": result}


@pytest.mark.anyio
async def test_a_value_that_others_wait_for_survives_a_call_that_is_cancelled() -> None:
    waiting, go_on = asyncio.Event(), asyncio.Event()

    async def slow(calling: Calling) -> Value:
        if calling.compute is None:
            waiting.set()
            await go_on.wait()
            return 5
        computed = asyncio.ensure_future(calling.compute())
        await waiting.wait()
        await asyncio.sleep(0)
        computed.cancel()
        await asyncio.wait([computed])
        go_on.set()
        return [0]

    source = "x = remote(1) a = map([1], (y) => x + y) with timeout: 1s b = x + 1 out a out b"
    assert await evaluate(check(parse(source), FUNCTIONS), {}, slow) == {"a": [0], "b": 6}


@pytest.mark.anyio
async def test_a_failure_in_a_lambda_is_raised_as_it_is() -> None:
    async def failing(calling: Calling) -> Value:
        if calling.compute is None:
            raise LookupError("it failed")
        with pytest.raises(LookupError):
            await calling.compute()
        return [7]

    source = "a = map([1, 2], (y) => remote(y)) with retry: 1 out a"
    assert await evaluate(check(parse(source), FUNCTIONS), {}, failing) == {"a": [7]}


@pytest.mark.anyio
async def test_an_operator_is_never_a_tool() -> None:
    tool = Function("add", REMOTE.parameters * 2, REMOTE.returns, "demo/add", "demo", tool=True)
    program = check(parse("use demo use stdlib.math x = 1 + 2 out x"), Functions([*STANDARD_FUNCTIONS, tool]))
    assert await evaluate(program, {}, call) == {"x": 3}


@pytest.mark.parametrize(
    ("kind", "json", "why"),
    [
        ("{ a: List<Int> }", {"a": [2**63]}, "a[0]: expected Int, found a number beyond 64 bits"),
        ("Int", 1e400, "expected Int, found a number"),
        ("Int", 1.5, "expected Int, found a number"),
        ("Float", float("nan"), "expected Float, found NaN"),
        ("Map<String, Float>", {"x": 10**400}, "x: expected Float, found a number beyond the range of a Float"),
        ("Json", {"x": [1e400]}, "x[0]: expected Float, found a number beyond the range of a Float"),
        ("List<String>", ["a", "\ud800"], "[1]: expected String, found a String with half a character"),
        ("Map<String, Int>", {"\udfff": 1}, "expected String, found a String with half a character"),
        ("Json", {"a": {"\udfff": 1}}, "expected String, found a String with half a character"),
        ("Map<Int, Int>", [[1, 2], [1]], "[1]: expected a pair [key, value]"),
        ("Json", {1}, "expected Json, found a set"),
    ],
)
def test_json_that_is_no_value_is_refused_with_its_place(kind: str, json: Any, why: str) -> None:
    with pytest.raises(Unfit) as refused:
        from_json(json, read_type(kind), "in")
    assert str(refused.value).startswith("in")
    assert why in str(refused.value)


def test_json_may_be_only_so_deep() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    assert from_json(deep, read_type("Json")) == deep
    with pytest.raises(Unfit, match="more than 100 levels"):
        from_json([deep], read_type("Json"))


def test_a_tag_that_is_no_tag_is_a_field() -> None:
    kind = read_type("{ tag: String, value: Int } | Int")
    assert from_json({"tag": "x", "value": 1}, kind) == {"tag": "x", "value": 1}
    assert to_json({"tag": "x", "value": 1}, kind)["tag"] == "{ tag: String, value: Int }"


def test_unions_in_unions_are_read_once() -> None:
    kind: t.Type = t.INT
    json: Any = 1
    for _ in range(10):
        kind = t.union((t.Record({"a": kind, "b": t.INT}), t.Record({"a": kind, "b": t.STRING})))
        json = {"a": json, "b": "x"}
    many = [json] * 500
    values = from_json(many, t.ListOf(kind))
    assert values == many
    assert plain(values, t.ListOf(kind)) == many
    with pytest.raises(Unfit, match=r"^\[500\]"):
        from_json([*many, {"a": 1, "b": "x"}], t.ListOf(kind))


def test_unions_that_fit_many_ways_are_compared_once() -> None:
    kinds: list[t.Type] = [t.INT, t.STRING]
    for _ in range(10):
        kinds = [t.union((t.Record({"a": kind, "b": t.INT}), t.Record({"a": kind, "c": t.INT}))) for kind in kinds]
    assert t.fits(kinds[0], t.union(kinds))
    assert not t.fits(kinds[1], kinds[0])


@pytest.mark.anyio
async def test_values_of_runs_that_go_on_have_a_room_together_and_a_share_of_each_owner() -> None:
    memory, called, goes_on = Memory(total=48 * 2**20, of_owner=32 * 2**20), asyncio.Event(), asyncio.Event()
    source = doubled('"' + "a" * 2**20 + '"', "concat(#, #)", 4) + " y = demo.remote(string-length(x4)) out y"

    async def wait(_: Calling) -> Value:
        called.set()
        await goes_on.wait()
        return 1

    async def one(owner: str) -> Value:
        with memory.share(owner) as share:
            return (await evaluate(check(parse(source), FUNCTIONS), {}, wait, share=share))["y"]

    async def fails(owner: str) -> None:
        with pytest.raises(RunFailed, match="take too much memory together"):
            await one(owner)

    running = asyncio.create_task(one("ann"))  # 30 MiB of values wait for the call
    await called.wait()
    await fails("ann")
    await fails("bob")
    goes_on.set()
    assert await running == 1
    assert not memory.taken
    assert await one("ann") == await one("bob") == 1


@pytest.mark.anyio
async def test_answers_of_calls_and_inputs_take_room_too() -> None:
    large = "a" * 5 * 2**20
    memory = Memory(of_owner=4 * 2**20)

    async def answer(_: Calling) -> Value:
        return large

    texts = Function("text", (), read_type("String"), "demo.text", "demo", tool=True)
    for source, inputs in (("x = demo.text() out x", {}), ("in x: String out x", {"x": large})):
        with memory.share("ann") as share, pytest.raises(RunFailed, match="memory"):
            await evaluate(check(parse(source), Functions([texts])), inputs, answer, share=share)


TREE = "type A0 = { a: Int }\n" + "".join(f"type A{n + 1} = {{ a: A{n}, b: A{n} }}\n" for n in range(11))
LONG = "n" * 20_000


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (TREE + "".join(f"in x{n}: A11\n" for n in range(2500)) + "out x1", "inputs and outputs are too large"),
        (TREE + "in x: A11\n" + "".join(f"y{n} = x out y{n}\n" for n in range(2000)), "are too large"),
        (TREE + "in x: A11\n" + "".join(f"y{n} = add(x, x)\n" for n in range(2000)) + "out x", "a type of 6143 parts"),
        (f"type A = {{ {LONG}: Int }} in x: {{ {', '.join(f'f{n}: A' for n in range(1000))} }} out x", "too large"),
        (f"in r: {{ {', '.join(f'f{n}: Int' for n in range(2500))} }} " + "y = r.z " * 2000 + "out r", "f19, …"),
    ],
    ids=["inputs", "outputs", "mismatches", "names", "fields"],
)
def test_a_small_source_makes_no_large_answer(source: str, why: str) -> None:
    began = time.process_time()
    with pytest.raises(Faulty) as refused:
        check(parse(source), FUNCTIONS)
    told = diagnostics(source, refused.value.faults)
    assert why in told[0]["message"]
    assert len(json.dumps(told)) < 1_000_000
    assert time.process_time() - began < 2.0


def test_the_schemas_of_an_agent_are_read_within_a_room() -> None:
    eight = {n: {f"p{m}": {"$ref": f"#/$defs/d{n + 1}"} for m in range(8)} for n in range(9)}
    defs = {f"d{n}": {"type": "object", "properties": each} for n, each in eight.items()}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs}

    def read() -> None:
        room = Room()
        for _ in range(300):
            parameters_of(schema, room)
            type_of(schema, room)
        assert type_of({"type": "object", "properties": {"a": {"type": "string"}}}, room) == t.JSON

    within_cpu(1.0, read)


def nested(width: int, depth: int, leaf: t.Type, numbers: Iterator[int]) -> t.Type:
    """A union of records of unions, which differ only in the innermost ones."""
    if depth == 0:
        return t.Record({f"q{next(numbers)}": leaf})
    return t.union([t.Record({"a": nested(width, depth - 1, leaf, numbers)}) for _ in range(width)])


WIDE = nested(57, 2, t.INT, count())


def test_types_that_take_long_to_be_compared_are_refused() -> None:
    f = Function("f", (("x", nested(57, 2, t.FLOAT, count())),), t.INT, "t/a/f", "t.a", tool=True)
    g = Function("g", (), WIDE, "t/a/g", "t.a", tool=True)
    with pytest.raises(Faulty, match="take too long to be checked"):
        check(parse("x = t.a.f(t.a.g()) out x"), Functions([f, g]))
    fields = ", ".join(f"f{n}: Int" for n in range(1500))
    with pytest.raises(Faulty, match="take too long to be checked"):
        check(parse(f"in r: {{ {fields} }} z = r{' + r' * 8000} out z"), FUNCTIONS)


SPARSE = t.Record({f"f{n}": t.OptionalOf(t.INT) for n in range(1000)})


SLOW: dict[str, tuple[Any, t.Type, str]] = {
    "unions": ([{"a": {"a": {f"q{57 * 57 - 1}": 1}}} for _ in range(1000)], t.ListOf(WIDE), "takes too long"),
    "fields": ([{} for _ in range(1000)], t.ListOf(SPARSE), "too many fields are left out"),
    "json": (
        {"a": [[0] * 100] * 1000, "c": "x"},
        t.union([t.Record({"a": t.JSON, f"b{n}": t.OptionalOf(t.INT), "c": t.INT}) for n in range(99)]),
        "takes too long",
    ),
}


@pytest.mark.parametrize("kind", SLOW)
def test_json_that_takes_long_to_be_read_is_refused(kind: str) -> None:
    given, wanted, why = SLOW[kind]

    def read() -> None:
        with pytest.raises(Unfit, match=why):
            from_json(given, wanted)

    within_cpu(4.0, read)


def test_tags_of_unions_have_a_bounded_length() -> None:
    kind = t.union([t.Record({"x": t.OptionalOf(WIDE)}), t.INT])
    values = from_json([{}] * 1000, t.ListOf(kind))
    with pytest.raises(Unfit, match="tags"):
        to_json(values, t.ListOf(kind))
