"""The types of values, and which type stands in for which.

Types are compared by their structure; the order of a record's fields and of a union's members does not count. `size`
and `depth` of a type are known without walking it, because types made of types made of types grow exponentially.
"""

import json
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property, lru_cache, reduce
from itertools import chain

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*+")
"""A name of the language, unless it is reserved."""

RESERVED = frozenset(
    word
    for words in (
        ("type", "in", "out", "use", "as", "if", "else", "branch", "otherwise", "match", "is"),
        ("when", "with", "lazy", "and", "or", "not", "true", "false"),
    )
    for word in words
)

MOST_PARTS = 10_000
MOST_MEMBERS = 100
"""Members of a union. One with more counts as too large."""
MOST_DEPTH = 100
_MOST_TOLD = 100
"""Parts of a type that a message has in full."""
_PART_OF_NAME = 32
"""Characters of a field's name that count as a further part, since types are written with them."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parts."""

    name: str
    size: int = field(default=1, compare=False)
    depth: int = field(default=1, compare=False)

    def __str__(self) -> str:
        return self.name


STRING, INT, FLOAT, BOOLEAN = Primitive("String"), Primitive("Int"), Primitive("Float"), Primitive("Boolean")
NOTHING = Primitive("Nothing")
"""The type of no value, which stands in for every type: the items of an empty list have it."""
JSON = Primitive("Json")
"""Any JSON value, of which nothing is known. It is checked when a value of it is used as another type."""

PRIMITIVES = {primitive.name: primitive for primitive in (STRING, INT, FLOAT, BOOLEAN)}
"""The types that a program cannot name anew."""
PRIMITIVE_OF: dict[type[object], Primitive] = {str: STRING, int: INT, float: FLOAT, bool: BOOLEAN}
"""The type of a constant by its class."""


class _Compound:
    """A type with parts."""

    __slots__ = ()

    size: int
    depth: int
    has_function: bool
    """Whether it is a function, or has one inside."""

    def parts(self) -> Iterable["Type"]:
        """The types directly inside."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        parts = list(self.parts())
        object.__setattr__(self, "size", 1 + sum(part.size for part in parts))
        object.__setattr__(self, "depth", 1 + max((part.depth for part in parts), default=0))
        object.__setattr__(self, "has_function", isinstance(self, Function) or not all(map(is_data, parts)))


@dataclass(frozen=True)
class ListOf(_Compound):
    """`List<T>`: a finite list. It stands in for a `Seq`."""

    item: "Type"
    size: int = field(init=False, repr=False, compare=False, default=0)
    depth: int = field(init=False, repr=False, compare=False, default=0)

    def parts(self) -> Iterable["Type"]:
        return (self.item,)

    def __str__(self) -> str:
        return f"List<{self.item}>"


@dataclass(frozen=True)
class SeqOf(_Compound):
    """`Seq<T>`, also called `Candidates<T>`."""

    item: "Type"
    size: int = field(init=False, repr=False, compare=False, default=0)
    depth: int = field(init=False, repr=False, compare=False, default=0)

    def parts(self) -> Iterable["Type"]:
        return (self.item,)

    def __str__(self) -> str:
        return f"Seq<{self.item}>"


@dataclass(frozen=True)
class MapOf(_Compound):
    """`Map<K, V>`."""

    key: "Type"
    value: "Type"
    size: int = field(init=False, repr=False, compare=False, default=0)
    depth: int = field(init=False, repr=False, compare=False, default=0)

    def parts(self) -> Iterable["Type"]:
        return self.key, self.value

    def __str__(self) -> str:
        return f"Map<{self.key}, {self.value}>"


@dataclass(frozen=True)
class OptionalOf(_Compound):
    """`Optional<T>`: a value or nothing."""

    inner: "Type"
    size: int = field(init=False, repr=False, compare=False, default=0)
    depth: int = field(init=False, repr=False, compare=False, default=0)

    def parts(self) -> Iterable["Type"]:
        return (self.inner,)

    def __str__(self) -> str:
        return f"Optional<{self.inner}>"


@dataclass(frozen=True, eq=False)
class Record(_Compound):
    """`{ id: Int, name: String }`. A name that the language cannot write is a JSON string."""

    fields: dict[str, "Type"]
    size: int = field(init=False, repr=False, compare=False, default=0)
    depth: int = field(init=False, repr=False, compare=False, default=0)
    _hash: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "size", self.size + sum(len(name) // _PART_OF_NAME for name in self.fields))
        object.__setattr__(self, "_hash", hash(frozenset(self.fields.items())))

    def parts(self) -> Iterable["Type"]:
        return self.fields.values()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._hash == other._hash and self.fields == other.fields

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"{{ {', '.join(f'{written_field(name)}: {kind}' for name, kind in self.fields.items())} }}"


@dataclass(frozen=True)
class Union(_Compound):
    """`A | B`: a value of any of the members. Made by `union`."""

    members: frozenset["Type"]
    size: int = field(init=False, repr=False, compare=False, default=0)
    depth: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.members) > MOST_MEMBERS:
            object.__setattr__(self, "size", MOST_PARTS + 1)

    def parts(self) -> Iterable["Type"]:
        return self.members

    @cached_property
    def ordered(self) -> list[tuple[str, "Type"]]:
        """The members with their names, those with more fields first, `Float` behind `Int`, then by name."""
        members = [(str(member), member) for member in self.members]
        return sorted(members, key=lambda each: (-_fields(each[1]), each[1] == FLOAT, each[0]))

    def __str__(self) -> str:
        return " | ".join(sorted(map(str, self.members)))


@dataclass(frozen=True)
class Function(_Compound):
    """`(Int) => Boolean`: the type of a parameter that takes a lambda."""

    parameters: tuple["Type", ...]
    returns: "Type"
    size: int = field(init=False, repr=False, compare=False, default=0)
    depth: int = field(init=False, repr=False, compare=False, default=0)

    def parts(self) -> Iterable["Type"]:
        return (*self.parameters, self.returns)

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parameters))}) => {self.returns}"


type Type = Primitive | ListOf | SeqOf | MapOf | OptionalOf | Record | Union | Function


def written_field(name: str) -> str:
    """The name of a field as a program writes it: as a JSON string, if it is no name of the language."""
    return name if NAME.fullmatch(name) and name not in RESERVED else json.dumps(name, ensure_ascii=False)


def _fields(kind: Type) -> int:
    return len(kind.fields) if isinstance(kind, Record) else 0


class Rule(Enum):
    """When one type stands in for another.

    `LANGUAGE`: inside a program; `Json` stands in for every type, and is checked at run time. `KNOWN`: the same without
    `Json`. `TOOL`: where a tool takes a value; an `Int` stands in for a `Float`, a `Seq` for a `List`, a `T` for an
    `Optional<T>`, and fields of a record that are Optional may be missing.
    """

    LANGUAGE = auto()
    KNOWN = auto()
    TOOL = auto()


def told(kind: Type) -> str:
    """A type in a message: as text, or how large it is."""
    return str(kind) if kind.size <= _MOST_TOLD else f"a type of {kind.size} parts"


def is_too_large(kind: Type) -> bool:
    """Whether a type is larger than what is worked with."""
    return kind.size > MOST_PARTS or kind.depth > MOST_DEPTH


def parts_in(kind: Type) -> Iterator[Type]:
    """A type and all types inside it."""
    waiting = [kind]
    while waiting:
        yield (part := waiting.pop())
        if isinstance(part, _Compound):
            waiting += part.parts()


def is_data(kind: Type) -> bool:
    """Whether JSON can have the values of a type: there is no function in it."""
    return isinstance(kind, Primitive) or not kind.has_function


def members_of(kind: Type) -> Iterator[Type]:
    """The members of a union; of any other type the type itself."""
    yield from kind.members if isinstance(kind, Union) else (kind,)


def union(kinds: Iterable[Type]) -> Type:
    """A value of one of these types; unions inside are dissolved, and with `Json` it is any value."""
    members = frozenset(chain.from_iterable(map(members_of, kinds)))
    if JSON in members:
        return JSON
    return next(iter(members)) if len(members) == 1 else Union(members)


class TooMuch(Exception):
    """Types take too long to be compared or made."""


_left: ContextVar[list[int] | None] = ContextVar("_left", default=None)


@contextmanager
def limited(steps: int) -> Generator[None]:
    """Compare types in the block in at most so many steps; what was compared before is no step.

    Raises:
        TooMuch: there are more.
    """
    token = _left.set([steps])
    try:
        yield
    finally:
        _left.reset(token)


@lru_cache(maxsize=1024)
def fits(kind: Type, wanted: Type, rule: Rule = Rule.LANGUAGE) -> bool:
    """Whether a value of type `kind` can stand where one of type `wanted` is needed."""
    if (left := _left.get()) is not None:
        left[0] -= 1
        if left[0] < 0:
            raise TooMuch
    if kind in (wanted, NOTHING):
        return True
    if wanted == JSON:
        return is_data(kind)
    if kind == JSON:
        return rule is not Rule.KNOWN
    match kind, wanted:
        case (ListOf(a), ListOf(b)) | (SeqOf(a), SeqOf(b)) | (ListOf(a), SeqOf(b)) | (OptionalOf(a), OptionalOf(b)):
            return fits(a, b, rule)
        case SeqOf(a), ListOf(b) if rule is Rule.TOOL:
            return fits(a, b, rule)
        case MapOf(), MapOf():
            return kind.key == wanted.key and fits(kind.value, wanted.value, rule)
        case Record(), Record():
            return all(
                fits(kind.fields[name], of, rule)
                if name in kind.fields
                else rule is Rule.TOOL and isinstance(of, OptionalOf)
                for name, of in wanted.fields.items()
            )
        case Union(members), _:
            return all(fits(member, wanted, rule) for member in members)
        case _, Union(members):
            return any(fits(kind, member, rule) for member in members)
        case _, OptionalOf(inner) if rule is Rule.TOOL:
            return fits(kind, inner, rule)
        case Function(), Function():
            return (
                len(kind.parameters) == len(wanted.parameters)
                and all(fits(b, a, rule) for a, b in zip(kind.parameters, wanted.parameters, strict=True))
                and fits(kind.returns, wanted.returns, rule)
            )
        case _:
            return rule is Rule.TOOL and (kind, wanted) == (INT, FLOAT)


def common(kinds: Iterable[Type]) -> Type:
    """The narrowest type that all of these fit: one of them, or their union."""
    different = list(dict.fromkeys(kinds))
    return union(different) if len(different) > MOST_MEMBERS else reduce(_common_of_two, different)


def _common_of_two(a: Type, b: Type) -> Type:
    return b if fits(a, b, Rule.KNOWN) else a if fits(b, a, Rule.KNOWN) else union((a, b))


def outcome(kind: Type) -> Record:
    """What a call with `on_error: wrap` returns, where the function returns `kind`."""
    return Record({"ok": BOOLEAN, "value": OptionalOf(kind), "error": OptionalOf(STRING)})


def merged(left: Type, right: Type) -> Type | None:
    """The type of `left + right` for records: the fields of both, those of the right one win.

    A record is added to each item of a list or a sequence of records. None: these types cannot be merged.
    """
    match left, right:
        case Record(), Record():
            return Record(left.fields | right.fields)
        case (ListOf(Record() as a), ListOf(Record() as b)) | (ListOf(Record() as a), Record() as b):
            return ListOf(Record(a.fields | b.fields))
        case (SeqOf(Record() as a), SeqOf(Record() as b)) | (SeqOf(Record() as a), Record() as b):
            return SeqOf(Record(a.fields | b.fields))
        case Record(), ListOf(Record() as b):
            return ListOf(Record(left.fields | b.fields))
        case Record(), SeqOf(Record() as b):
            return SeqOf(Record(left.fields | b.fields))
        case _:
            return None
