"""The syntax tree. Nodes are compared by identity, so that facts about a node can be kept in a dictionary.

Chains such as `a + b - c` are one node with a list, so the depth of the tree is that of the brackets in the source.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from pallas_cst.faults import Span


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A name where it is declared."""

    text: str
    span: Span


# Types


@dataclass(frozen=True, slots=True, eq=False)
class NamedType:
    """`Int`, `Order`, `List<Order>`. `parameters` is None without angle brackets."""

    name: str
    parameters: Sequence["TypeExpr"] | None
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class RecordType:
    """`{ id: Int, name: String }`."""

    fields: Sequence[tuple[str, "TypeExpr"]]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class MergedType:
    """`A + B`: a record with the fields of both; the last one wins."""

    parts: Sequence["TypeExpr"]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class UnionType:
    """`A | B`."""

    members: Sequence["TypeExpr"]
    span: Span


type TypeExpr = NamedType | RecordType | MergedType | UnionType


# Expressions


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """A reference to an input, a variable or a parameter."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A number, a text or a truth value."""

    value: int | float | str | bool
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Interpolation:
    """`"Hello, ${name}!"`: one text more than expressions."""

    texts: Sequence[str]
    values: Sequence["Expr"]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class ListOf:
    """`[1, 2]`."""

    items: Sequence["Expr"]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class RecordOf:
    """`{ id: 1, name: "x" }`."""

    fields: Sequence[tuple[str, "Expr"]]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """`namespace.function(a, b) with retry: 3`."""

    name: str
    arguments: Sequence["Expr"]
    options: "Options"
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class FieldAccess:
    """`.name` behind a value."""

    field: str
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """`[id, name]` or `{id, name}` behind a value."""

    fields: Sequence[str]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Postfix:
    """A value, and what is taken from it, from left to right."""

    source: "Expr"
    steps: Sequence[FieldAccess | Projection]
    span: Span


type ArithmeticOperator = Literal["+", "-", "*", "/"]
type Comparator = Literal["==", "!=", "<", ">", "<=", ">="]
type BooleanOperator = Literal["and", "or"]


@dataclass(frozen=True, slots=True, eq=False)
class Arithmetic:
    """`a + b - c`, or `a * b / c`, from left to right. `+` of records merges them."""

    first: "Expr"
    rest: list[tuple[ArithmeticOperator, "Expr"]]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """`a < b`."""

    left: "Expr"
    operator: Comparator
    right: "Expr"
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Logic:
    """`a and b and c`, or the same with `or`."""

    operator: BooleanOperator
    operands: list["Expr"]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Not:
    """`not a`; `times` is how often `not` is repeated."""

    operand: "Expr"
    times: int
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """`a when condition`: an Optional, which is empty if the condition is false."""

    value: "Expr"
    condition: "Expr"
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Coalesce:
    """`a ?? b ?? c`: the first value that is there."""

    operands: list["Expr"]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class If:
    """`if (condition) a else b`."""

    condition: "Expr"
    then: "Expr"
    otherwise: "Expr"
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """`branch { condition -> a, otherwise -> b }`."""

    cases: Sequence[tuple["Expr", "Expr"]]
    otherwise: "Expr"
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class FieldsPattern:
    """`{ value }`: records with these fields, which are variables in the case."""

    fields: Sequence[str]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class TypePattern:
    """`is Int`."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class AnyPattern:
    """`_`."""

    span: Span


type Pattern = FieldsPattern | TypePattern | AnyPattern


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """`match value { pattern -> result }`."""

    value: "Expr"
    cases: Sequence[tuple[Pattern, "Expr"]]
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Lambda:
    """`(x, y: Int) => x + y`."""

    parameters: Sequence[tuple[Name, TypeExpr | None]]
    body: "Expr"
    span: Span


type Expr = (
    Variable
    | Constant
    | Interpolation
    | ListOf
    | RecordOf
    | Call
    | Postfix
    | Arithmetic
    | Comparison
    | Logic
    | Not
    | Guard
    | Coalesce
    | If
    | Branch
    | Match
    | Lambda
)


def parts_of(expr: Expr) -> Sequence[Expr]:
    """The expressions directly inside an expression, in the order of the source."""
    match expr:
        case Variable() | Constant():
            return ()
        case Interpolation(_, values):
            return values
        case ListOf(items):
            return items
        case RecordOf(fields):
            return [value for _, value in fields]
        case Call(_, arguments, options):
            return arguments if options.fallback is None else [*arguments, options.fallback]
        case Postfix(source):
            return (source,)
        case Arithmetic(first, rest):
            return [first, *(operand for _, operand in rest)]
        case Comparison(left, _, right):
            return (left, right)
        case Logic(_, operands) | Coalesce(operands):
            return operands
        case Not(operand):
            return (operand,)
        case Guard(value, condition):
            return (value, condition)
        case If(condition, then, otherwise):
            return (condition, then, otherwise)
        case Branch(cases, otherwise):
            return [*(part for case in cases for part in case), otherwise]
        case Match(value, matched):
            return [value, *(result for _, result in matched)]
        case Lambda(_, body):
            return (body,)


def parts_in(expr: Expr) -> Iterator[Expr]:
    """An expression and all expressions inside it, outer ones first, in the order of the source."""
    waiting = [expr]
    while waiting:
        yield (part := waiting.pop())
        waiting += reversed(parts_of(part))


# Options of a call


type Unit = Literal["ms", "s", "min", "h", "d"]
UNITS: dict[str, Unit] = {unit: unit for unit in get_args(Unit.__value__)}
_SECONDS: dict[Unit, float] = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


@dataclass(frozen=True, slots=True)
class Duration:
    """`30s`."""

    value: int
    unit: Unit

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return self.value * _SECONDS[self.unit]

    def __str__(self) -> str:
        return f"{self.value}{self.unit}"


@dataclass(frozen=True, slots=True)
class Rate:
    """`100/1min`."""

    count: int
    per: Duration

    def __str__(self) -> str:
        return f"{self.count}/{self.per}"


@dataclass(frozen=True, slots=True)
class Named:
    """The value of a streaming option with arguments, such as `sliding(5s, 1s)`."""

    name: str
    arguments: Sequence[Duration | int] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.arguments))})" if self.arguments else self.name


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """What follows `with`. An option that is given twice has its last value."""

    retry: int | None = None
    timeout: Duration | None = None
    delay: Duration | None = None
    backoff: Literal["fixed", "linear", "exponential"] | None = None
    fallback: Expr | None = None
    cache: Duration | None = None
    cache_backend: str | None = None
    throttle: Rate | None = None
    concurrency: int | None = None
    on_error: Literal["propagate", "skip", "log", "wrap"] | None = None
    lazy: bool | None = None
    priority: int | Literal["critical", "high", "normal", "low", "background"] | None = None
    batch: int | None = None
    batch_timeout: Duration | None = None
    window: Named | None = None
    checkpoint: Duration | None = None
    join: Named | None = None


NO_OPTIONS = Options()


# Declarations


@dataclass(frozen=True, slots=True, eq=False)
class Annotation:
    """`@example(value)`, `@source("kafka", topic: "t")`, `@sink("kafka")`."""

    kind: Literal["example", "source", "sink"]
    value: Expr | None = None
    connector: str | None = None
    properties: Sequence[tuple[str, Expr]] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TypeDeclaration:
    """`type Order = { id: Int }`."""

    name: Name
    definition: TypeExpr


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """`in order: Order`."""

    name: Name
    type: TypeExpr
    annotations: Sequence[Annotation] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """`out result`."""

    name: Name
    annotations: Sequence[Annotation] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """`use stdlib.math as m`."""

    namespace: Name
    alias: Name | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """`result = add(a, b)`."""

    name: Name
    value: Expr


type Declaration = TypeDeclaration | Input | Output | Use | Assignment


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A parsed source."""

    declarations: Sequence[Declaration] = field(default=())

    def calls(self) -> Iterator[Call]:
        """The calls in all assignments, in the order in which the places of a run count them (from 1)."""
        assigned = (each.value for each in self.declarations if isinstance(each, Assignment))
        yield from (part for value in assigned for part in parts_in(value) if isinstance(part, Call))
