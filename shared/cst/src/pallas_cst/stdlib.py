"""The standard library: 43 pure functions with the signatures and the behaviour of the Constellation engine.

An `Int` is a 64-bit integer and wraps around. Signatures follow from the annotations, names from those of the
functions and parameters: `list_sum` is `list-sum`, and `and_` is `and`. Lambdas come as callables.
"""

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from pallas_cst import types as t
from pallas_cst.functions import Function

type Ints = list[int]
type Texts = list[str]
type Predicate = Callable[[int], bool]
type Transform = Callable[[int], int]

_TYPES: dict[object, t.Type] = {
    int: t.INT,
    float: t.FLOAT,
    str: t.STRING,
    bool: t.BOOLEAN,
    Ints: t.SeqOf(t.INT),
    Texts: t.ListOf(t.STRING),
    Predicate: t.Function((t.INT,), t.BOOLEAN),
    Transform: t.Function((t.INT,), t.INT),
}
_LONGS = (-(2**63), 2**63 - 1)
_SPACE = "".join(map(chr, range(33)))


class Failed(Exception):
    """A function cannot compute a result; the message is for the author of the program."""


@dataclass(frozen=True, slots=True)
class StandardFunction:
    """A function, how it is computed, and what it does."""

    function: Function
    compute: Callable[..., Any]
    about: str


STANDARD: dict[str, StandardFunction] = {}
"""The functions by the name under which they are executed (`Function.module`)."""


def _standard[F: Callable[..., Any]](namespace: str, module: str | None = None) -> Callable[[F], F]:
    """Add a function to the library."""

    def add_to_library(compute: F) -> F:
        name = compute.__name__.strip("_").replace("_", "-")
        hints = get_type_hints(compute)
        returns = _TYPES[hints.pop("return")]
        parameters = tuple((parameter.strip("_"), _TYPES[hint]) for parameter, hint in hints.items())
        function = Function(name, parameters, returns, f"stdlib.{module or name}", namespace)
        STANDARD[function.module] = StandardFunction(function, compute, inspect.getdoc(compute) or "")
        return compute

    return add_to_library


def size_made(module: str, arguments: Sequence[Any]) -> int:
    """The size of the result of a function that makes texts or lists, about as `values.size_of` counts; else 0."""
    match module, arguments:
        case "stdlib.concat", (str() as a, str() as b):
            return len(a) + len(b)
        case "stdlib.list-concat", (a, b):
            return 16 * (len(a) + len(b))
        case "stdlib.join", (texts, str() as separator):
            return sum(map(len, texts)) + len(separator) * len(texts)
        case "stdlib.split", (str() as value, str() as separator):
            return len(value) + 16 * value.count(separator)
        case "stdlib.replace", (str() as value, str() as target, str() as replacement):
            return len(value) + value.count(target) * max(0, len(replacement) - len(target))
        case _:
            return 0


def wrapped(value: int) -> int:
    """The integer in 64 bits, as two's complement."""
    return (value + 2**63) % 2**64 - 2**63


# Booleans


@_standard("stdlib.bool")
def and_(a: bool, b: bool) -> bool:
    """Whether both are true."""
    return a and b


@_standard("stdlib.bool")
def or_(a: bool, b: bool) -> bool:
    """Whether one of both is true."""
    return a or b


@_standard("stdlib.bool")
def not_(value: bool) -> bool:
    """The opposite."""
    return not value


# Comparisons


@_standard("stdlib.compare")
def eq_int(a: int, b: int) -> bool:
    """Whether two integers are equal."""
    return a == b


@_standard("stdlib.compare")
def eq_string(a: str, b: str) -> bool:
    """Whether two texts are equal."""
    return a == b


@_standard("stdlib.compare")
def gt(a: int, b: int) -> bool:
    """Whether `a` is greater than `b`."""
    return a > b


@_standard("stdlib.compare")
def lt(a: int, b: int) -> bool:
    """Whether `a` is less than `b`."""
    return a < b


@_standard("stdlib.compare")
def gte(a: int, b: int) -> bool:
    """Whether `a` is greater than `b` or equal."""
    return a >= b


@_standard("stdlib.compare")
def lte(a: int, b: int) -> bool:
    """Whether `a` is less than `b` or equal."""
    return a <= b


# Functions of functions


@_standard("stdlib.collection", "hof.filter-int")
def filter_(items: Ints, predicate: Predicate) -> Ints:
    """The items for which the predicate is true."""
    return [item for item in items if predicate(item)]


@_standard("stdlib.collection", "hof.map-int-int")
def map_(items: Ints, transform: Transform) -> Ints:
    """The result for each item."""
    return [transform(item) for item in items]


@_standard("stdlib.collection", "hof.all-int")
def all_(items: Ints, predicate: Predicate) -> bool:
    """Whether the predicate is true for all items."""
    return all(map(predicate, items))


@_standard("stdlib.collection", "hof.any-int")
def any_(items: Ints, predicate: Predicate) -> bool:
    """Whether the predicate is true for one of the items."""
    return any(map(predicate, items))


# Lists


@_standard("stdlib.list")
def list_length(list_: Ints) -> int:
    """How many items there are."""
    return len(list_)


@_standard("stdlib.list")
def list_first(list_: Ints) -> int:
    """The first item; fails for an empty list."""
    if not list_:
        raise Failed("list-first: the list is empty")
    return list_[0]


@_standard("stdlib.list")
def list_last(list_: Ints) -> int:
    """The last item; fails for an empty list."""
    if not list_:
        raise Failed("list-last: the list is empty")
    return list_[-1]


@_standard("stdlib.list")
def list_is_empty(list_: Ints) -> bool:
    """Whether there is no item."""
    return not list_


@_standard("stdlib.list")
def list_sum(list_: Ints) -> int:
    """The sum of all items."""
    return wrapped(sum(list_))


@_standard("stdlib.list")
def list_concat(a: Ints, b: Ints) -> Ints:
    """The items of both lists."""
    return [*a, *b]


@_standard("stdlib.list")
def list_contains(list_: Ints, value: int) -> bool:
    """Whether the list has the value."""
    return value in list_


@_standard("stdlib.list")
def list_reverse(list_: Ints) -> Ints:
    """The items from the last to the first."""
    return list_[::-1]


# Numbers


@_standard("stdlib.math")
def add(a: int, b: int) -> int:
    """The sum."""
    return wrapped(a + b)


@_standard("stdlib.math")
def subtract(a: int, b: int) -> int:
    """The difference."""
    return wrapped(a - b)


@_standard("stdlib.math")
def multiply(a: int, b: int) -> int:
    """The product."""
    return wrapped(a * b)


@_standard("stdlib.math")
def divide(a: int, b: int) -> int:
    """The quotient, rounded toward zero; fails for `b` = 0."""
    if b == 0:
        raise Failed("divide: division by zero")
    quotient = abs(a) // abs(b)
    return wrapped(quotient if (a < 0) == (b < 0) else -quotient)


@_standard("stdlib.math")
def max_(a: int, b: int) -> int:
    """The greater one."""
    return max(a, b)


@_standard("stdlib.math")
def min_(a: int, b: int) -> int:
    """The lesser one."""
    return min(a, b)


@_standard("stdlib.math")
def abs_(value: int) -> int:
    """The absolute value."""
    return wrapped(abs(value))


@_standard("stdlib.math")
def modulo(a: int, b: int) -> int:
    """The remainder of a division that is rounded toward zero; fails for `b` = 0."""
    if b == 0:
        raise Failed("modulo: division by zero")
    remainder = abs(a) % abs(b)
    return -remainder if a < 0 else remainder


@_standard("stdlib.math")
def round_(value: float) -> int:
    """The nearest integer, halves up."""
    exact = not math.isfinite(value) or abs(value) >= 2**52
    return to_int(value if exact else math.floor(value + 0.5))


@_standard("stdlib.math")
def negate(value: int) -> int:
    """The value with the opposite sign."""
    return wrapped(-value)


# Texts


@_standard("stdlib.string")
def concat(a: str, b: str) -> str:
    """Both texts together."""
    return a + b


@_standard("stdlib.string")
def string_length(value: str) -> int:
    """The length in UTF-16 units."""
    return len(value) + sum(char > "\uffff" for char in value)


@_standard("stdlib.string")
def join(list_: Texts, separator: str) -> str:
    """The texts with the separator between them."""
    return separator.join(list_)


@_standard("stdlib.string")
def split(value: str, substring: str) -> Texts:
    """The parts between the separators; for an empty separator, the characters and an empty text."""
    return value.split(substring) if substring else [*value, ""]


@_standard("stdlib.string")
def contains(value: str, substring: str) -> bool:
    """Whether the text has the other one in it."""
    return substring in value


@_standard("stdlib.string")
def trim(value: str) -> str:
    """The text without the space around it."""
    return value.strip(_SPACE)


@_standard("stdlib.string")
def replace(value: str, target: str, replacement: str) -> str:
    """The text with every target replaced."""
    return value.replace(target, replacement)


# Conversions, and the rest


@_standard("stdlib.convert")
def to_string(value: int) -> str:
    """The integer as text."""
    return str(value)


@_standard("stdlib.convert")
def to_int(value: float) -> int:
    """The number without its fraction, or the nearest integer of 64 bits; 0 for what is no number."""
    if math.isnan(value):
        return 0
    least, most = _LONGS
    if math.isinf(value):
        return most if value > 0 else least
    return max(least, min(most, math.trunc(value)))


@_standard("stdlib.convert")
def to_float(value: int) -> float:
    """The integer as a Float."""
    return float(value)


@_standard("stdlib")
def identity(value: str) -> str:
    """The text itself."""
    return value


@_standard("stdlib.debug")
def log(message: str) -> str:
    """The text itself."""
    return message


STANDARD_FUNCTIONS = tuple(each.function for each in STANDARD.values())
"""The functions of the library, as a program can call them."""
