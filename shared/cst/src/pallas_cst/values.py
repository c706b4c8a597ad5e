"""Values of the language, and JSON.

An `Int` is an `int`, a `Float` a `float`, a record a `dict`, a list or sequence a `list`, a map a `dict` if its keys
are texts and a list of pairs otherwise. An `Optional` is None or the value itself; a value that is None or a `Some` is
in a `Some`. A value of a union is a value of one of its members.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeIs

from pallas_cst import types as t

type Value = Any


def is_list(value: Value) -> TypeIs[list[Value]]:
    """Whether a value, of the language or of JSON, is a list."""
    return isinstance(value, list)


def is_object(value: Value) -> TypeIs[dict[str, Value]]:
    """Whether a value is a record, a map with texts as keys, or a JSON object."""
    return isinstance(value, dict)


def is_pair(value: Value) -> TypeIs[tuple[Value, Value]]:
    """Whether a value is a key and a value of a map."""
    return isinstance(value, tuple)


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


_MOST_TRIES = 250_000
"""Parts that are looked at for a value and a type of any size."""


def _tries(value: Any) -> int:
    return _MOST_TRIES + 10 * (size_of(value) // _PART)


class Unfit(Exception):
    """A value that is none of a type. The message names the place in it; `path` is that place, innermost first."""

    def __init__(self, found: str, wanted: t.Type | None = None) -> None:
        super().__init__(found)
        self.path: list[str | int] = []
        self._found = found
        self._wanted = wanted

    def __str__(self) -> str:
        steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(self.path))
        place = "".join(steps).removeprefix(".")
        wanted = "" if self._wanted is None else f"expected {_shortened(t.told(self._wanted))}, found "
        return f"{place}{': ' if place else ''}{wanted}{self._found}"


class TooMuch(Unfit):
    """A value that is too much work for a type; it is no reason to try another one."""


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


_MOST_SHOWN = 200


def from_json(json: Any, kind: t.Type, path: str = "") -> Value:
    """The value of a type that a JSON value stands for; `path` is where that is, for the message.

    A union is `{"tag": <member>, "value": ...}`, or a value that fits one of the members. It takes about 1 s for
    16 MiB: call it in a thread (`asyncio.to_thread`) for JSON of more than 100 kB, or large types.

    Raises:
        Unfit: it stands for none, or it takes too long to find out.
    """
    try:
        return _Reader(_tries(json)).value(json, kind)
    except Unfit as error:
        error.path += [path] if path else []
        raise


@dataclass
class _Reader:
    """Reads values. What a union inside another one is, is found once, however often the outer one asks for it.

    `tries` is how many parts may be looked at, each time for a member of a union; `absent` how many Optional fields may
    be left out, which the value has all the same.
    """

    tries: int
    absent: int = 500_000
    _known: dict[tuple[int, int], Value | Unfit] = field(default_factory=dict[tuple[int, int], "Value | Unfit"])
    _within: int = 0

    def value(self, json: Any, kind: t.Type) -> Value:
        self.tries -= size_of(json) // _PART if kind is t.JSON and self._within else 1
        if self.tries < 0:
            raise TooMuch("it takes too long to tell of which members of unions its parts are")
        if isinstance(kind, t.Primitive):
            return _READERS[kind.name](json)
        match kind:
            case t.ListOf(item) | t.SeqOf(item) if is_list(json):
                return [_at(index, self.value, each, item) for index, each in enumerate(json)]
            case t.MapOf() if is_list(json) or (kind.key == t.STRING and is_object(json)):
                return self._map(json, kind)
            case t.OptionalOf(inner):
                return None if json is None else some(self.value(json, inner))
            case t.Record(fields) if is_object(json):
                return {name: _at(name, self._field, json, name, field) for name, field in fields.items()}
            case t.Union() if is_list(json) or is_object(json):
                return self._once(json, kind)
            case t.Union():
                return self._of_member(json, kind)
            case _:
                raise Unfit(_kind_of(json), kind)

    def _map(self, json: Any, kind: t.MapOf) -> Value:
        """Pairs [key, value]; a map with texts as keys may be an object, and is one as a value."""
        if is_object(json):
            return {_at(key, _text, key): _at(key, self.value, value, kind.value) for key, value in json.items()}
        pairs = [_at(index, self._pair, pair, kind) for index, pair in enumerate(json)]
        return dict(pairs) if kind.key == t.STRING else pairs

    def _pair(self, json: Any, kind: t.MapOf) -> tuple[Value, Value]:
        match json:
            case [key, value]:
                return _at(0, self.value, key, kind.key), _at(1, self.value, value, kind.value)
            case _:
                raise Unfit("expected a pair [key, value]")

    def _field(self, json: Mapping[str, Any], name: str, kind: t.Type) -> Value:
        if name not in json:
            if not isinstance(kind, t.OptionalOf):
                raise Unfit("the field is missing")
            self.absent -= 1
            if self.absent < 0:
                raise TooMuch("too many fields are left out")
            return None
        return self.value(json.get(name), kind)

    def _once(self, json: Any, kind: t.Union) -> Value:
        key = id(json), id(kind)
        self._within += 1
        try:
            if key not in self._known:
                self._known[key] = self._of_member(json, kind)
        except Unfit as error:
            self._known[key] = error
            raise
        finally:
            found = self._known[key]
            self._within -= 1
            if self._within == 0:
                self._known.clear()
        if isinstance(found, Unfit):
            raise Unfit(_kind_of(json), kind)
        return found

    def _of_member(self, json: Any, kind: t.Union) -> Value:
        tag = None
        match json:
            case {"tag": str() as tag, "value": value} if len(json) == len(("tag", "value")):
                members = [member for text, member in kind.ordered if text == tag]
                if len(members) > 1:
                    raise Unfit(f"the tag {tag!r} stands for more than one member of {_shortened(t.told(kind))}")
                if members:
                    return self.value(value, members[0])
            case _:
                pass
        for _, member in kind.ordered:
            if _may_be(json, member):
                try:
                    return self.value(json, member)
                except TooMuch:
                    raise
                except Unfit:
                    pass
        if tag is not None:
            raise Unfit(f"the tag {tag!r} is no member of {_shortened(t.told(kind))}")
        raise Unfit(_kind_of(json), kind)


def _text(json: Any) -> str:
    if not isinstance(json, str):
        raise Unfit(_kind_of(json), t.STRING)
    if not json.isascii():
        try:
            json.encode()
        except UnicodeEncodeError:
            raise Unfit("a String with half a character (a lone surrogate)", t.STRING) from None
    return json


def _boolean(json: Any) -> bool:
    if not isinstance(json, bool):
        raise Unfit(_kind_of(json), t.BOOLEAN)
    return json


def _integer(json: Any) -> int:
    if not _is_number(json) or (isinstance(json, float) and not json.is_integer()):
        raise Unfit(_kind_of(json), t.INT)
    if int(json) not in INT64:
        raise Unfit("a number beyond 64 bits", t.INT)
    return int(json)


def _float(json: Any) -> float:
    if not _is_number(json):
        raise Unfit(_kind_of(json), t.FLOAT)
    try:
        number = float(json)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise Unfit("NaN" if math.isnan(number) else "a number beyond the range of a Float", t.FLOAT)
    return number


def _is_number(json: Any) -> TypeIs[int | float]:
    return isinstance(json, int | float) and not isinstance(json, bool)


def _json(json: Any) -> Any:
    _check_json(json, t.MOST_DEPTH)
    return json


def _nothing(json: Any) -> Value:
    raise Unfit(_kind_of(json), t.NOTHING)


def _check_json(json: Any, depth: int) -> None:
    """Nothing, if it can be written as JSON and is not too deep."""
    if isinstance(json, Some):
        _check_json(json.value, depth)
    elif is_list(json) or is_pair(json) or is_object(json):
        if depth == 0:
            raise Unfit(f"the value has more than {t.MOST_DEPTH} levels")
        for step, each in json.items() if is_object(json) else enumerate(json):
            _at(step, _check_json, each, depth - 1)
            if isinstance(step, str):
                _text(step)
    elif isinstance(json, str):
        _text(json)
    elif isinstance(json, float):
        _float(json)
    elif not (json is None or isinstance(json, int)):
        raise Unfit(f"a {type(json).__name__}", t.JSON)


_READERS: dict[str, Callable[[Any], Value]] = {
    "String": _text,
    "Boolean": _boolean,
    "Int": _integer,
    "Float": _float,
    "Json": _json,
    "Nothing": _nothing,
}


def _at[*A, R](step: str | int, function: Callable[[*A], R], *arguments: *A) -> R:
    """What a function returns for the part of a value that is at this step."""
    try:
        return function(*arguments)
    except Unfit as error:
        error.path.append(step)
        raise


def _may_be(json: Any, kind: t.Type) -> bool:
    """Whether JSON looks like a value of a type, without a look at its parts."""
    match kind:
        case t.Record():
            return is_object(json) and all(
                name in json or isinstance(field, t.OptionalOf) for name, field in kind.fields.items()
            )
        case t.ListOf() | t.SeqOf():
            return is_list(json)
        case _:
            return True


def converted(value: Value, kind: t.Type, wanted: t.Type) -> Value:
    """A value of a type as one of another type that it fits (`types.fits`, by any rule). `Json` is checked.

    Raises:
        Unfit: the value, or `Json` in it, is none of the wanted type, or it takes too long to find out.
    """
    return _converted(value, kind, wanted, _Members(_tries(value)))


def _converted(value: Value, kind: t.Type, wanted: t.Type, members: "_Members") -> Value:
    if t.fits(kind, wanted, t.Rule.KNOWN):
        return value
    match kind, wanted:
        case t.JSON, _:
            return _Reader(_tries(value)).value(value, wanted)
        case ((t.ListOf(a) | t.SeqOf(a)), (t.ListOf(b) | t.SeqOf(b))):
            return [_at(index, _converted, each, a, b, members) for index, each in enumerate(value)]
        case t.OptionalOf(a), t.OptionalOf(b):
            return None if value is None else some(_converted(inside(value), a, b, members))
        case t.MapOf(), t.MapOf() if is_object(value):
            return {key: _at(key, _converted, each, kind.value, wanted.value, members) for key, each in value.items()}
        case t.MapOf(), t.MapOf():
            return [
                (key, _at(index, _converted, each, kind.value, wanted.value, members))
                for index, (key, each) in enumerate(value)
            ]
        case t.Record(fields), t.Record(others):
            return {
                name: _at(name, _converted, value[name], fields[name], field, members) if name in fields else None
                for name, field in others.items()
            }
        case t.Union(), _:
            return _converted(value, members.of(value, kind) or t.JSON, wanted, members)
        case _, t.Union():
            rule = next(rule for rule in t.Rule if any(t.fits(kind, member, rule) for member in wanted.members))
            member = next(each for _, each in wanted.ordered if t.fits(kind, each, rule))
            return _converted(value, kind, member, members)
        case _, t.OptionalOf(inner):
            return some(_converted(value, kind, inner, members))
        case _:
            return float(value)


def plain(value: Value, kind: t.Type = t.JSON, path: str = "") -> Any:
    """The JSON of a value for a tool: as `to_json`, but unions without tags, and records without empty fields.

    Raises:
        Unfit: a number in it cannot be written as JSON; `path` is where the value is.
    """
    try:
        return _Writer(_Members(_tries(value)), for_tools=True).json(value, kind)
    except Unfit as error:
        error.path += [path] if path else []
        raise


def to_json(value: Value, kind: t.Type) -> Any:
    """The JSON of a value of a type. A Float that is no number of JSON is null. As slow as `from_json`.

    Raises:
        Unfit: it would be too large, or it takes too long to tell of which members of unions its parts are.
    """
    return _Writer(_Members(_tries(value)), for_tools=False).json(value, kind)


_MOST_OF_TAGS = 16 * 2**20
"""Characters of all tags in the JSON of a value."""


@dataclass
class _Writer:
    """Writes values as JSON, for tools or as `from_json` reads it."""

    members: "_Members"
    for_tools: bool
    _tags: dict[t.Type, str] = field(default_factory=dict[t.Type, str])
    _room: int = _MOST_OF_TAGS

    def json(self, value: Value, kind: t.Type) -> Any:
        if isinstance(kind, t.Primitive):
            return self._number(value) if kind is t.FLOAT else self._any(value) if kind is t.JSON else value
        match kind:
            case t.OptionalOf(inner):
                return None if value is None else self.json(inside(value), inner)
            case t.ListOf(item) | t.SeqOf(item):
                return [_at(index, self.json, each, item) for index, each in enumerate(value)]
            case t.MapOf() if is_object(value):
                return {key: _at(key, self.json, each, kind.value) for key, each in value.items()}
            case t.MapOf():
                return [[self.json(key, kind.key), self.json(each, kind.value)] for key, each in value]
            case t.Record(fields):
                return {
                    name: _at(name, self.json, value[name], field)
                    for name, field in fields.items()
                    if not (self.for_tools and value[name] is None and isinstance(field, t.OptionalOf))
                }
            case t.Union():
                member = self.members.of(value, kind) or t.JSON
                json = self.json(value, member)
                return json if self.for_tools else {"tag": self._tag(member), "value": json}
            case t.Function():
                raise Unfit("a lambda", t.JSON)

    def _tag(self, member: t.Type) -> str:
        if member not in self._tags:
            self._tags[member] = str(member)
        self._room -= len(tag := self._tags[member])
        if self._room < 0:
            raise TooMuch("the tags of unions would be too long")
        return tag

    def _number(self, value: float) -> float | None:
        return _float(value) if self.for_tools or math.isfinite(value) else None

    def _any(self, value: Value) -> Any:
        """The JSON of a value of which the type is not known."""
        if is_object(value):
            return {name: _at(name, self._any, each) for name, each in value.items()}
        if is_list(value) or is_pair(value):
            return [_at(index, self._any, each) for index, each in enumerate(value)]
        if isinstance(value, Some):
            return self._any(value.value)
        return self._number(value) if isinstance(value, float) else value


def zero_value(kind: t.Type) -> Value:
    """The value that stands for a result that is not there (`on_error: skip`)."""
    match kind:
        case t.STRING:
            return ""
        case t.INT:
            return 0
        case t.FLOAT:
            return 0.0
        case t.BOOLEAN:
            return False
        case t.ListOf() | t.SeqOf():
            return list[Value]()
        case t.MapOf(t.STRING):
            return dict[str, Value]()
        case t.MapOf():
            return list[Value]()
        case t.Record(fields):
            return {name: zero_value(field) for name, field in fields.items()}
        case t.Union(members):
            return zero_value(min(members, key=str))
        case _:
            return None


def succeeded(value: Value) -> Value:
    """What a call with `on_error: wrap` returns for a result."""
    return {"ok": True, "value": some(value), "error": None}


def failed(message: str) -> Value:
    """What a call with `on_error: wrap` returns for a failure."""
    return {"ok": False, "value": None, "error": message}


def is_of(value: Value, kind: t.Type) -> bool:
    """Whether a value is one of a type.

    Raises:
        Unfit: it takes too long to find out.
    """
    return _Members(_tries(value)).has(value, kind)


_CLASSES: dict[str, type] = {"String": str, "Boolean": bool, "Int": int, "Float": float}


@dataclass
class _Members:
    """Tells the members of unions that the parts of a value are; of each part once."""

    tries: int
    _known: dict[tuple[int, int], t.Type | None] = field(default_factory=dict[tuple[int, int], "t.Type | None"])

    def of(self, value: Value, kind: t.Union) -> t.Type | None:
        """The member that a value is of, None if it is of none."""
        key = id(value), id(kind)
        if key not in self._known:
            self._known[key] = next((member for _, member in kind.ordered if self.has(value, member)), None)
        return self._known[key]

    def has(self, value: Value, kind: t.Type) -> bool:
        """Whether a value is one of a type.

        Raises:
            TooMuch: it takes too long to find out.
        """
        self.tries -= 1
        if self.tries < 0:
            raise TooMuch("it takes too long to tell of which members of unions its parts are")
        if isinstance(kind, t.Primitive):
            return kind is t.JSON or type(value) is _CLASSES.get(kind.name)
        match kind:
            case t.ListOf(item) | t.SeqOf(item):
                return is_list(value) and all(self.has(each, item) for each in value)
            case t.OptionalOf(inner):
                return value is None or self.has(inside(value), inner)
            case t.Record(fields):
                return is_object(value) and all(
                    name in value and self.has(value[name], field) for name, field in fields.items()
                )
            case t.MapOf(t.STRING, item):
                return is_object(value) and all(self.has(each, item) for each in value.values())
            case t.MapOf():
                return is_list(value) and all(is_pair(each) and self._has_pair(each, kind) for each in value)
            case t.Union():
                return self.of(value, kind) is not None
            case t.Function():
                return False

    def _has_pair(self, pair: tuple[Value, Value], kind: t.MapOf) -> bool:
        return self.has(pair[0], kind.key) and self.has(pair[1], kind.value)


def size_of(value: Value, most: int = 2**62) -> int:
    """The size of a value in bytes, about that of its JSON. Counting ends above `most`."""
    size, waiting = 0, [value]
    while waiting and size <= most:
        each = waiting.pop()
        size += _PART
        if isinstance(each, str):
            size += len(each)
        elif is_list(each) or is_pair(each):
            if size + _PART * len(each) > most:
                return size + _PART * len(each)
            waiting += each
        elif is_object(each):
            size += sum(map(len, each))
            waiting += each.values()
        elif isinstance(each, Some):
            waiting.append(each.value)
    return size


_PART = 16


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
