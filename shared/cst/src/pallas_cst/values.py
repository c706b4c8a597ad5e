"""Values of the language, and JSON.

An `Int` is an `int`, a `Float` a `float`, a record a `dict`, a list or sequence a `list`, a map a `dict` if its keys
are texts and a list of pairs otherwise. An `Optional` is None or the value itself; a value that is None or a `Some` is
in a `Some`. A value of a union is a value of one of its members.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeIs

from pallas_cst import types as t

type Value = Any


def is_list(value: Value) -> TypeIs[list[Value]]:
    """Whether a value, of the language or of JSON, is a list."""
    return isinstance(value, list)


def is_object(value: Value) -> TypeIs[dict[str, Value]]:
    """Whether a value is a record, a map with texts as keys, or a JSON object."""
    return isinstance(value, dict)


INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Some:
    """An Optional that has a value, where the value is None or a `Some`."""

    value: Value


def some(value: Value) -> Value:
    """An Optional that has this value."""
    return Some(value) if value is None or isinstance(value, Some) else value


def inside(optional: Value) -> Value:
    """The value in an Optional that has one."""
    return optional.value if isinstance(optional, Some) else optional


class Unfit(Exception):
    """JSON that is no value of a type; the message names the place in it."""


def from_json(json: Any, kind: t.Type, path: str = "") -> Value:
    """The value of a type that a JSON value stands for.

    A union is `{"tag": <member>, "value": ...}`, or a value that fits one of the members.

    Raises:
        Unfit: it stands for none.
    """
    match kind:
        case t.STRING if isinstance(json, str):
            return json
        case t.BOOLEAN if isinstance(json, bool):
            return json
        case t.INT if (number := _integral(json)) is not None:
            return number
        case t.FLOAT if isinstance(json, int | float) and not isinstance(json, bool):
            return _float(json, path)
        case t.JSON:
            return json
        case t.ListOf(item) | t.SeqOf(item) if is_list(json):
            return [from_json(each, item, f"{path}[{index}]") for index, each in enumerate(json)]
        case t.MapOf():
            return _map_from_json(json, kind, path)
        case t.OptionalOf(inner):
            return None if json is None else some(from_json(json, inner, path))
        case t.Record() if is_object(json):
            return _record_from_json(json, kind, path)
        case t.Union():
            return _member_from_json(json, kind, path)
        case _:
            raise Unfit(f"{_place(path)}expected {kind}, found {_kind_of(json)}")


def _integral(json: Any) -> int | None:
    if isinstance(json, bool) or not isinstance(json, int | float):
        return None
    if isinstance(json, float) and not json.is_integer():
        return None
    return int(json) if int(json) in INT64 else None


def _float(json: float, path: str) -> float:
    try:
        return float(json)
    except OverflowError:
        raise Unfit(f"{_place(path)}the number is too large") from None


def _map_from_json(json: Any, kind: t.MapOf, path: str) -> Value:
    if kind.key == t.STRING and is_object(json):
        return {key: from_json(value, kind.value, f"{path}.{key}") for key, value in json.items()}
    if not is_list(json):
        raise Unfit(f"{_place(path)}expected {kind}, found {_kind_of(json)}")
    pairs: list[tuple[Value, Value]] = []
    for index, pair in enumerate(json):
        place = f"{path}[{index}]"
        match pair:
            case [key, value]:
                pairs.append((from_json(key, kind.key, f"{place}[0]"), from_json(value, kind.value, f"{place}[1]")))
            case _:
                raise Unfit(f"{_place(place)}expected a pair [key, value]")
    return dict(pairs) if kind.key == t.STRING else pairs


def _record_from_json(json: Mapping[str, Any], kind: t.Record, path: str) -> Value:
    found: dict[str, Value] = {}
    for name, field in kind.fields.items():
        place = f"{path}.{name}" if path else name
        if name not in json and not isinstance(field, t.OptionalOf):
            raise Unfit(f"{_place(place)}the field is missing")
        found[name] = from_json(json.get(name), field, place)
    return found


def _member_from_json(json: Any, kind: t.Union, path: str) -> Value:
    match json:
        case {"tag": str() as tag, "value": value} if len(json) == len(("tag", "value")):
            for member in kind.members:
                if str(member) == tag:
                    return from_json(value, member, path)
            raise Unfit(f"{_place(path)}the tag {tag!r} is no member of {kind}")
        case _:
            for member in _narrow_first(kind):
                try:
                    return from_json(json, member, path)
                except Unfit:
                    continue
            raise Unfit(f"{_place(path)}expected {kind}, found {_kind_of(json)}")


def to_json(value: Value, kind: t.Type) -> Any:
    """The JSON of a value of a type."""
    match kind:
        case t.OptionalOf(inner):
            return None if value is None else to_json(inside(value), inner)
        case t.ListOf(item) | t.SeqOf(item):
            return [to_json(each, item) for each in value]
        case t.MapOf() if is_object(value):
            return {key: to_json(each, kind.value) for key, each in value.items()}
        case t.MapOf():
            return [[to_json(key, kind.key), to_json(each, kind.value)] for key, each in value]
        case t.Record():
            return {name: to_json(value[name], field) for name, field in kind.fields.items()}
        case t.Union():
            member = member_of(value, kind)
            return {"tag": str(member), "value": to_json(value, member)}
        case t.FLOAT:
            return float(value)
        case _:
            return value


def member_of(value: Value, kind: t.Union) -> t.Type:
    """The member of a union that a value belongs to."""
    return next((member for member in _narrow_first(kind) if is_of(value, member)), t.JSON)


def _narrow_first(kind: t.Union) -> Iterator[t.Type]:
    """The members, those with more fields first, then by name: a record with more fields is of both types."""
    yield from sorted(kind.members, key=lambda member: (-_fields(member), member == t.FLOAT, str(member)))


def _fields(kind: t.Type) -> int:
    return len(kind.fields) if isinstance(kind, t.Record) else 0


def is_of(value: Value, kind: t.Type) -> bool:
    """Whether a value is one of a type."""
    match kind:
        case t.STRING:
            return isinstance(value, str)
        case t.BOOLEAN:
            return isinstance(value, bool)
        case t.INT:
            return isinstance(value, int) and not isinstance(value, bool)
        case t.FLOAT:
            return isinstance(value, float)
        case t.ListOf(item) | t.SeqOf(item):
            return is_list(value) and all(is_of(each, item) for each in value)
        case t.OptionalOf(inner):
            return value is None or is_of(inside(value), inner)
        case t.Record(fields):
            return is_object(value) and all(name in value and is_of(value[name], of) for name, of in fields.items())
        case t.Union(members):
            return any(is_of(value, member) for member in members)
        case t.MapOf():
            return isinstance(value, dict | list)
        case _:
            return kind == t.JSON


def text_of(value: Value) -> str:
    """A value in a text, as `${...}` writes it."""
    if is_list(value):
        return f"[{', '.join(map(text_of, value))}]"
    if is_object(value):
        return f"{{{', '.join(f'{name}: {text_of(each)}' for name, each in value.items())}}}"
    match value:
        case None:
            return ""
        case Some(inner):
            return text_of(inner)
        case bool():
            return "true" if value else "false"
        case float():
            return _float_text(value)
        case _:
            return str(value)


def _float_text(value: float) -> str:
    """A Float as Java writes it: 1.0E10 from ten million on."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value) if "e" not in repr(value) else f"{value:f}".rstrip("0")
    digits, _, exponent = f"{value!r}".partition("e")
    if not exponent:
        mantissa, _, power = f"{value:.17e}".partition("e")
        digits, exponent = _shortest(value, mantissa, int(power)), power
    return f"{digits if '.' in digits else f'{digits}.0'}E{int(exponent)}"


def _shortest(value: float, mantissa: str, power: int) -> str:
    """The fewest digits of a mantissa that still stand for the value."""
    for places in range(1, 18):
        digits = f"{float(mantissa):.{places}f}"
        if float(f"{digits}e{power}") == value:
            return digits
    return mantissa


def _place(path: str) -> str:
    return f"{path}: " if path else ""


def _kind_of(json: Any) -> str:
    match json:
        case None:
            return "null"
        case bool():
            return "a Boolean"
        case int() | float():
            return "a number"
        case str():
            return "a String"
        case list():
            return "an array"
        case _:
            return "an object"
