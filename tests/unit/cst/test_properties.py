"""Generated programs are parsed again as they are written, and computed as a second, simple evaluator does."""

import asyncio
import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from tests.unit.cst.cases import STANDARD_FUNCTIONS, read_type

from pallas_cst import syntax as s
from pallas_cst.check import check
from pallas_cst.evaluate import Calling, RunFailed, evaluate
from pallas_cst.faults import Faulty, Span
from pallas_cst.functions import Function, Functions
from pallas_cst.parse import parse
from pallas_cst.pretty import pretty
from pallas_cst.types import RESERVED
from pallas_cst.values import Value, from_json, is_list, is_object, is_pair, to_json

FEWER = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

# Syntax trees

NOWHERE = Span(0, 0)
NAMES = st.from_regex(r"[a-z_][a-z0-9_-]{0,3}", fullmatch=True).filter(lambda name: name not in RESERVED)
QUALIFIED = st.lists(NAMES, min_size=1, max_size=3).map(".".join)
TEXTS = st.text(st.sampled_from('ab \\"$\n\t{}é'), max_size=5)
CONSTANTS = st.integers(-(2**63), 2**63 - 1) | st.floats(0, 1e20, allow_subnormal=False) | TEXTS | st.booleans()
DURATIONS = st.builds(s.Duration, st.integers(0, 99), st.sampled_from(list(s.UNITS.values())))


def some_of[T](items: st.SearchStrategy[T], least: int = 1, most: int = 3) -> st.SearchStrategy[list[T]]:
    return st.lists(items, min_size=least, max_size=most)


def in_place(name: str) -> s.Name:
    return s.Name(name, NOWHERE)


TYPES: st.SearchStrategy[s.TypeExpr] = st.recursive(
    st.builds(s.NamedType, NAMES, st.none(), st.just(NOWHERE)),
    lambda inner: (
        st.builds(s.NamedType, NAMES, some_of(inner, 1, 2), st.just(NOWHERE))
        | st.builds(s.RecordType, some_of(st.tuples(NAMES, inner), 0), st.just(NOWHERE))
    ),
    max_leaves=4,
)
MERGED = TYPES | st.builds(s.MergedType, some_of(TYPES, 2), st.just(NOWHERE))
ALL_TYPES = MERGED | st.builds(s.UnionType, some_of(MERGED, 2), st.just(NOWHERE))


def options(inner: st.SearchStrategy[s.Expr]) -> st.SearchStrategy[s.Options]:
    """At least one option: without any it is no `Options` of its own."""
    given: dict[str, st.SearchStrategy[Any]] = {
        "retry": st.integers(0, 9),
        "timeout": DURATIONS,
        "backoff": st.sampled_from(["fixed", "linear", "exponential"]),
        "fallback": inner,
        "cache_backend": st.just("shared"),
        "throttle": st.builds(s.Rate, st.integers(0, 9), DURATIONS),
        "on_error": st.sampled_from(["skip", "log", "wrap", "propagate"]),
        "lazy": st.booleans(),
        "priority": st.integers(-9, 9) | st.just("high"),
        "window": st.just(s.Named("sliding", (s.Duration(5, "s"), s.Duration(1, "s")))),
    }
    chosen = st.dictionaries(st.sampled_from(sorted(given)), st.none(), min_size=1, max_size=3)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({name: given[name] for name in names})).map(
        lambda values: replace(s.NO_OPTIONS, **values)
    )


def larger(inner: st.SearchStrategy[s.Expr]) -> st.SearchStrategy[s.Expr]:
    here = st.just(NOWHERE)
    steps = st.builds(s.FieldAccess, NAMES, here) | st.builds(s.Projection, some_of(NAMES), here)
    patterns = (
        st.builds(s.FieldsPattern, some_of(NAMES), here)
        | st.builds(s.TypePattern, NAMES, here)
        | st.builds(s.AnyPattern, here)
    )
    texts = some_of(inner).flatmap(
        lambda values: st.builds(
            s.Interpolation, some_of(TEXTS, len(values) + 1, len(values) + 1), st.just(values), here
        )
    )
    chains = st.sampled_from(["+-", "*/"]).flatmap(
        lambda signs: st.builds(s.Arithmetic, inner, some_of(st.tuples(st.sampled_from(signs), inner)), here)
    )
    return st.one_of(
        texts,
        chains,
        st.builds(s.ListOf, some_of(inner, 0), here),
        st.builds(s.RecordOf, some_of(st.tuples(NAMES, inner), 0), here),
        st.builds(s.Call, QUALIFIED, some_of(inner, 0), st.just(s.NO_OPTIONS) | options(inner), here),
        st.builds(s.Postfix, inner.filter(lambda each: not isinstance(each, s.Postfix)), some_of(steps), here),
        st.builds(s.Comparison, inner, st.sampled_from(["==", "!=", "<", ">", "<=", ">="]), inner, here),
        st.builds(s.Logic, st.sampled_from(["and", "or"]), some_of(inner, 2), here),
        st.builds(s.Not, inner, st.integers(1, 3), here),
        st.builds(s.Guard, inner, inner, here),
        st.builds(s.Coalesce, some_of(inner, 2), here),
        st.builds(s.If, inner, inner, inner, here),
        st.builds(s.Branch, some_of(st.tuples(inner, inner), 0), inner, here),
        st.builds(s.Match, inner, some_of(st.tuples(patterns, inner)), here),
        st.builds(s.Lambda, some_of(st.tuples(NAMES.map(in_place), st.none() | ALL_TYPES), 0), inner, here),
    )


LEAVES = st.builds(s.Variable, NAMES, st.just(NOWHERE)) | st.builds(s.Constant, CONSTANTS, st.just(NOWHERE))
EXPRESSIONS: st.SearchStrategy[s.Expr] = st.recursive(LEAVES, larger, max_leaves=12)
ANNOTATIONS = st.builds(s.Annotation, st.just("example"), EXPRESSIONS) | st.builds(
    s.Annotation, st.just("source"), st.none(), st.just("kafka"), some_of(st.tuples(NAMES, EXPRESSIONS), 0)
)
DECLARATIONS = st.one_of(
    st.builds(s.TypeDeclaration, NAMES.map(in_place), ALL_TYPES),
    st.builds(s.Input, NAMES.map(in_place), ALL_TYPES, some_of(ANNOTATIONS, 0, 2)),
    st.builds(s.Use, QUALIFIED.map(in_place), st.none() | NAMES.map(in_place)),
    st.builds(s.Assignment, NAMES.map(in_place), EXPRESSIONS),
)


def shape(node: Any) -> Any:
    """A node without its places."""
    if is_dataclass(node):
        return type(node), [shape(getattr(node, each.name)) for each in fields(node) if each.name != "span"]
    return [shape(each) for each in node] if is_list(node) or is_pair(node) else node


@FEWER
@given(some_of(DECLARATIONS, 1, 4))
def test_a_program_that_is_written_is_parsed_to_the_same_program(declarations: list[s.Declaration]) -> None:
    program = s.Program([*declarations, s.Output(in_place("x"))])
    assert shape(parse(pretty(program))) == shape(program)


@FEWER
@given(st.binary(max_size=200).map(lambda data: data.decode("latin-1")) | st.text(st.characters(), max_size=200))
def test_what_is_no_program_is_a_syntax_error(source: str) -> None:
    with pytest.raises(Faulty) as refused:
        parse(source)
    assert {fault.code for fault in refused.value.faults} == {"E020"}


# Programs that check, and what they compute


class Fails(Exception):
    """The program cannot be computed."""


type Env = dict[str, Callable[[], Any]]


@dataclass(frozen=True)
class Made:
    """An expression, and what it computes."""

    text: str
    value: Callable[[Env], Any]


@dataclass(frozen=True)
class Production:
    """How to write an expression with others in it, and to compute it of their computations."""

    text: str
    parts: Sequence[str]
    compute: Callable[[list[Callable[[], Any]]], Any]


def long(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def an_int(value: Any) -> int:
    if type(value) is not int:
        raise Fails
    return value


def a_bool(value: Any) -> bool:
    if type(value) is not bool:
        raise Fails
    return value


def quotient(a: int, b: int) -> int:
    if b == 0:
        raise Fails
    return long(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))


def first(items: list[int]) -> int:
    if not items:
        raise Fails
    return items[0]


def shown(value: Any) -> str:
    if is_list(value):
        return f"[{', '.join(map(shown, value))}]"
    if is_object(value):
        return "{" + ", ".join(f"{name}: {shown(each)}" for name, each in value.items()) + "}"
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def order_of(a: int, b: str) -> dict[str, Any]:
    return {"a": a, "b": b}


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def field_of(value: Any, name: str) -> Any:
    if is_list(value):
        return [field_of(each, name) for each in value]
    return value.get(name) if is_object(value) else None


INT, FLOAT, TEXT, BOOL, INTS, MAYBE, JSON = "Int", "Float", "String", "Boolean", "List<Int>", "Optional<Int>", "Json"
ORDER, ORDERS = "{ a: Int, b: String }", "List<{ a: Int, b: String }>"
SHOWN = (INT, TEXT, BOOL, INTS, MAYBE, ORDER, ORDERS, JSON)
KINDS = (*SHOWN, FLOAT)


def strict(text: str, parts: Sequence[str], compute: Callable[[list[Any]], Any]) -> Production:
    """One that needs the values of all parts."""
    return Production(text, parts, lambda lazy: compute([part() for part in lazy]))


PRODUCTIONS: dict[str, list[Production]] = {
    INT: [
        strict("(@ + @)", (INT, INT), lambda parts: long(parts[0] + parts[1])),
        strict("(@ - @ * @)", (INT, INT, INT), lambda parts: long(parts[0] - parts[1] * parts[2])),
        strict("(@ / @)", (INT, INT), lambda parts: quotient(parts[0], parts[1])),
        strict("max(@, abs(@))", (INT, INT), lambda parts: max(parts[0], long(abs(parts[1])))),
        strict("list-sum(@)", (INTS,), lambda parts: long(sum(parts[0]))),
        strict("list-first(@)", (INTS,), lambda parts: first(parts[0])),
        strict("string-length(@)", (TEXT,), lambda parts: units(parts[0])),
        strict("@.a", (ORDER,), lambda parts: parts[0]["a"]),
        strict("(@ + @)", (JSON, INT), lambda parts: long(an_int(parts[0]) + parts[1])),
        strict("add(@, @)", (INT, JSON), lambda parts: long(parts[0] + an_int(parts[1]))),
        strict("twice(@)", (INT,), lambda parts: long(2 * parts[0])),
        strict("pick(@)", (INT,), lambda parts: parts[0]),
        strict("pick(@, @)", (INT, MAYBE), lambda parts: long(parts[0] + (parts[1] or 0))),
        strict("pick({ a: @, b: @ })", (INT, INT), lambda parts: long(parts[0] + parts[1])),
        strict("(add(@, @) with retry: 2)", (INT, INT), lambda parts: long(parts[0] + parts[1])),
        Production("(@ ?? @)", (MAYBE, INT), lambda parts: parts[1]() if (found := parts[0]()) is None else found),
        Production(
            "(match (if (@) @ else @) { is Int -> @, is String -> @ })",
            (BOOL, INT, TEXT, INT, INT),
            lambda parts: (parts[1](), parts[3]())[1] if parts[0]() else (parts[2](), parts[4]())[1],
        ),
        strict(
            "(match (@) { { a, b } -> a + string-length(b) })",
            (ORDER,),
            lambda parts: long(parts[0]["a"] + units(parts[0]["b"])),
        ),
    ],
    FLOAT: [
        strict("(@ * @)", (INT, FLOAT), lambda parts: parts[0] * parts[1]),
        strict("(@ + @)", (FLOAT, JSON), lambda parts: parts[0] + an_int(parts[1])),
        strict("scale(@)", (INT,), lambda parts: parts[0] / 2),
        strict("to-float(@)", (INT,), lambda parts: float(parts[0])),
    ],
    TEXT: [
        strict("concat(@, @)", (TEXT, TEXT), lambda parts: parts[0] + parts[1]),
        strict("trim(@)", (TEXT,), lambda parts: parts[0].strip(" ")),
        strict("to-string(@)", (INT,), lambda parts: str(parts[0])),
        strict('replace(@, "a", @)', (TEXT, TEXT), lambda parts: parts[0].replace("a", parts[1])),
        strict("join(@.b, @)", (ORDERS, TEXT), lambda parts: parts[1].join(each["b"] for each in parts[0])),
        *(strict('"<${@}>"', (kind,), lambda parts: f"<{shown(parts[0])}>") for kind in SHOWN),
    ],
    BOOL: [
        strict("(@ < @)", (INT, INT), lambda parts: parts[0] < parts[1]),
        strict("(@ == @)", (INT, INT), lambda parts: parts[0] == parts[1]),
        strict("(@ != @)", (TEXT, TEXT), lambda parts: parts[0] != parts[1]),
        strict("(@ >= @)", (JSON, INT), lambda parts: an_int(parts[0]) >= parts[1]),
        strict("contains(@, @)", (TEXT, TEXT), lambda parts: parts[1] in parts[0]),
        Production("(@ and @)", (BOOL, BOOL), lambda parts: parts[0]() and parts[1]()),
        Production("(@ or @)", (JSON, BOOL), lambda parts: a_bool(parts[0]()) or parts[1]()),
        strict("(not not not @)", (BOOL,), lambda parts: not parts[0]),
        strict("list-is-empty(@)", (INTS,), lambda parts: not parts[0]),
        Production(
            "any(@, (x) => x > @)", (INTS, INT), lambda parts: True in [each > parts[1]() for each in parts[0]()]
        ),
    ],
    INTS: [
        strict("[]", (), lambda parts: []),
        strict("[@, @]", (INT, INT), lambda parts: [parts[0], parts[1]]),
        strict("list-concat(@, @)", (INTS, INTS), lambda parts: parts[0] + parts[1]),
        strict("@.a", (ORDERS,), lambda parts: [each["a"] for each in parts[0]]),
        Production("map(@, (x) => x * @)", (INTS, INT), lambda parts: [long(each * parts[1]()) for each in parts[0]()]),
        Production("map(@, (x) => twice(x))", (INTS,), lambda parts: [long(each * 2) for each in parts[0]()]),
        Production(
            "filter(@, (x) => x > 0 and @)",
            (INTS, BOOL),
            lambda parts: [each for each in parts[0]() if each > 0 and parts[1]()],
        ),
    ],
    MAYBE: [
        Production("(@ when @)", (INT, BOOL), lambda parts: parts[0]() if parts[1]() else None),
        Production("(@ ?? @)", (MAYBE, MAYBE), lambda parts: parts[1]() if (found := parts[0]()) is None else found),
    ],
    ORDER: [
        strict("{ a: @, b: @ }", (INT, TEXT), lambda parts: {"a": parts[0], "b": parts[1]}),
        strict("(@ + { b: @ })", (ORDER, TEXT), lambda parts: parts[0] | {"b": parts[1]}),
        strict("({ c: true } + @)[b, a]", (ORDER,), lambda parts: {name: parts[0][name] for name in "ba"}),
    ],
    ORDERS: [
        strict("[@, @]", (ORDER, ORDER), lambda parts: [parts[0], parts[1]]),
        strict("(@ + { a: @ })", (ORDERS, INT), lambda parts: [each | {"a": parts[1]} for each in parts[0]]),
        strict("@{b, a}", (ORDERS,), lambda parts: [{"b": each["b"], "a": each["a"]} for each in parts[0]]),
    ],
    JSON: [
        strict("@.a", (JSON,), lambda parts: field_of(parts[0], "a")),
        Production("(@ ?? @)", (JSON, INT), lambda parts: parts[1]() if (found := parts[0]()) is None else found),
        strict("echo([@, @])", (JSON, INT), lambda parts: [parts[0], parts[1]]),
        strict("echo(@)", (ORDER,), lambda parts: parts[0]),
    ],
}
CONDITIONAL = (
    Production("(if (@) @ else @)", (BOOL, "", ""), lambda parts: parts[1]() if parts[0]() else parts[2]()),
    Production(
        "(branch { @ -> @, @ -> @, otherwise -> @ })",
        (BOOL, "", BOOL, "", ""),
        lambda parts: parts[1]() if parts[0]() else parts[3]() if parts[2]() else parts[4](),
    ),
)
LITERALS: dict[str, st.SearchStrategy[Any]] = {
    INT: st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63)]),
    FLOAT: st.sampled_from([0.0, 0.5, 2.0, 1e20]),
    TEXT: st.sampled_from(["", "a", " aé😀 "]),
    BOOL: st.booleans(),
}


@st.composite
def made(draw: st.DrawFn, kind: str, scope: dict[str, str], depth: int) -> Made:
    """An expression of a type; `scope` has the types of variables."""
    known = [name for name, each in scope.items() if each == kind]
    if known and draw(st.booleans()):
        name = draw(st.sampled_from(known))
        return Made(name, lambda env: env[name]())
    if depth == 0 and kind in LITERALS:
        value = draw(LITERALS[kind])
        text = pretty(s.Program([s.Assignment(in_place("x"), s.Constant(value, NOWHERE))]))
        return Made(text.removeprefix("x = ").strip(), lambda _env: value)
    if depth == 0 and known:
        name = known[0]
        return Made(name, lambda env: env[name]())
    production = draw(st.sampled_from([*PRODUCTIONS[kind], *(CONDITIONAL if depth else ())]))
    parts = [draw(made(each or kind, scope, max(0, depth - 1))) for each in production.parts]
    pieces = production.text.split("@")
    text = pieces[0] + "".join(part.text + piece for part, piece in zip(parts, pieces[1:], strict=True))
    return Made(text, lambda env: production.compute([partial(part.value, env) for part in parts]))


JSONS: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.just("text"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)
ORDER_VALUES = st.builds(order_of, LITERALS[INT], LITERALS[TEXT])
INPUTS: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "n": (INT, LITERALS[INT]),
    "t": (TEXT, LITERALS[TEXT]),
    "xs": (INTS, st.lists(LITERALS[INT], max_size=3)),
    "maybe": (MAYBE, st.none() | LITERALS[INT]),
    "order": (ORDER, ORDER_VALUES),
    "orders": (ORDERS, st.lists(ORDER_VALUES, max_size=2)),
    "json": (JSON, JSONS),
}


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, dict[str, Any], Env]:
    """A program, its inputs, and what its variables are."""
    scope = {name: kind for name, (kind, _) in INPUTS.items()}
    inputs = {name: draw(values) for name, (_, values) in INPUTS.items()}
    env: Env = {name: partial(deepcopy, value) for name, value in inputs.items()}
    lines = [f"in {name}: {kind}" for name, kind in scope.items()]
    for number in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(KINDS))
        expression = draw(made(kind, scope, 3))
        scope[f"v{number}"] = kind
        env[f"v{number}"] = cache(partial(expression.value, env))
        lines += [f"v{number} = {expression.text}", f"out v{number}"]
    return "\n".join(lines), inputs, env


def tool(name: str, returns: str, needed: int | None = None, **parameters: str) -> Function:
    given = tuple((each, read_type(kind)) for each, kind in parameters.items())
    return Function(name, given, read_type(returns), f"demo/{name}", "demo", tool=True, needed=needed)


FUNCTIONS = Functions(
    [
        *STANDARD_FUNCTIONS,
        tool("twice", INT, x=INT),
        tool("pick", INT, 1, a=INT, b=MAYBE),
        tool("scale", FLOAT, x=FLOAT),
        tool("echo", JSON, x=JSON),
    ]
)


async def call(calling: Calling) -> Value:
    if calling.compute is not None:
        return await calling.compute()
    given = calling.function.input_of(calling.arguments)
    match calling.function.name:
        case "twice":
            return long(given["x"] * 2)
        case "scale":
            assert isinstance(given["x"], float)
            return given["x"] / 2
        case "pick":
            return long(given["a"] + given.get("b", 0))
        case _:
            return given["x"]


def written(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


@FEWER
@given(programs())
def test_a_program_computes_what_the_simple_evaluator_does(program: tuple[str, dict[str, Any], Env]) -> None:
    source, inputs, env = program
    note(source)
    checked = check(parse(source), FUNCTIONS)
    values = {name: from_json(value, checked.inputs[name]) for name, value in inputs.items()}
    try:
        expected = {name: written(env[name]()) for name in checked.outputs}
    except Fails:
        with pytest.raises(RunFailed):
            asyncio.run(evaluate(checked, values, call))
        return
    outputs = asyncio.run(evaluate(checked, values, call))
    assert {name: to_json(value, checked.outputs[name]) for name, value in outputs.items()} == expected
