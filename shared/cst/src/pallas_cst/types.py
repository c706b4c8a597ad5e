"""The types of values, and which type stands in for which.

Types are compared by their structure; the order of a record's fields and of a union's members does not count. `size`
and `depth` of a type are known without walking it, because types made of types made of types grow exponentially.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain

MOST_PARTS = 10_000
MOST_DEPTH = 100


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


class _Compound:
    """A type with parts."""

    __slots__ = ()

    size: int
    depth: int

    def _parts(self) -> Iterable["Type"]:
        raise NotImplementedError

    def __post_init__(self) -> None:
        parts = list(self._parts())
        object.__setattr__(self, "size", 1 + sum(part.size for part in parts))
        object.__setattr__(self, "depth", 1 + max((part.depth for part in parts), default=0))


@dataclass(frozen=True)
class ListOf(_Compound):
    """`List<T>`: a finite list. It stands in for a `Seq`."""

    item: "Type"
    size: int = field(init=False, repr=False, compare=False, default=0)
    depth: int = field(init=False, repr=False, compare=False, default=0)

    def _parts(self) -> Iterable["Type"]:
        return (self.item,)

    def __str__(self) -> str:
        return f"List<{self.item}>"


@dataclass(frozen=True)
class SeqOf(_Compound):
    """`Seq<T>`, also called `Candidates<T>`."""

    item: "Type"
    size: int = field(init=False, repr=False, compare=False, default=0)
    depth: int = field(init=False, repr=False, compare=False, default=0)

    def _parts(self) -> Iterable["Type"]:
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

    def _parts(self) -> Iterable["Type"]:
        return self.key, self.value

    def __str__(self) -> str:
        return f"Map<{self.key}, {self.value}>"


@dataclass(frozen=True)
class OptionalOf(_Compound):
    """`Optional<T>`: a value or nothing."""

    inner: "Type"
    size: int = field(init=False, repr=False, compare=False, default=0)
    depth: int = field(init=False, repr=False, compare=False, default=0)

    def _parts(self) -> Iterable["Type"]:
        return (self.inner,)

    def __str__(self) -> str:
        return f"Optional<{self.inner}>"


@dataclass(frozen=True, eq=False)
class Record(_Compound):
    """`{ id: Int, name: String }`."""

    fields: dict[str, "Type"]
    size: int = field(init=False, repr=False, compare=False, default=0)
    depth: int = field(init=False, repr=False, compare=False, default=0)
    _hash: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "_hash", hash(frozenset(self.fields.items())))

    def _parts(self) -> Iterable["Type"]:
        return self.fields.values()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._hash == other._hash and self.fields == other.fields

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"{{ {', '.join(f'{name}: {kind}' for name, kind in self.fields.items())} }}"


@dataclass(frozen=True)
class Union(_Compound):
    """`A | B`: a value of any of the members. Made by `union`."""

    members: frozenset["Type"]
    size: int = field(init=False, repr=False, compare=False, default=0)
    depth: int = field(init=False, repr=False, compare=False, default=0)

    def _parts(self) -> Iterable["Type"]:
        return self.members

    def __str__(self) -> str:
        return " | ".join(sorted(map(str, self.members)))


@dataclass(frozen=True)
class Function(_Compound):
    """`(Int) => Boolean`: the type of a parameter that takes a lambda."""

    parameters: tuple["Type", ...]
    returns: "Type"
    size: int = field(init=False, repr=False, compare=False, default=0)
    depth: int = field(init=False, repr=False, compare=False, default=0)

    def _parts(self) -> Iterable["Type"]:
        return (*self.parameters, self.returns)

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parameters))}) => {self.returns}"


type Type = Primitive | ListOf | SeqOf | MapOf | OptionalOf | Record | Union | Function


def members_of(kind: Type) -> Iterator[Type]:
    """The members of a union; of any other type the type itself."""
    yield from kind.members if isinstance(kind, Union) else (kind,)


def union(kinds: Iterable[Type]) -> Type:
    """A value of one of these types; unions inside are dissolved."""
    members = frozenset(chain.from_iterable(map(members_of, kinds)))
    return next(iter(members)) if len(members) == 1 else Union(members)


def fits(kind: Type, wanted: Type) -> bool:
    """Whether a value of type `kind` can stand where one of type `wanted` is needed."""
    if kind in (wanted, NOTHING) or JSON in (kind, wanted):
        return True
    match kind, wanted:
        case (ListOf(a), ListOf(b)) | (SeqOf(a), SeqOf(b)) | (ListOf(a), SeqOf(b)):
            return fits(a, b)
        case OptionalOf(a), OptionalOf(b):
            return fits(a, b)
        case MapOf(), MapOf():
            return kind.key == wanted.key and fits(kind.value, wanted.value)
        case Record(), Record():
            return all(name in kind.fields and fits(kind.fields[name], of) for name, of in wanted.fields.items())
        case Union(members), _ if not isinstance(wanted, Union):
            return all(fits(member, wanted) for member in members)
        case Union(members), Union():
            return all(any(fits(member, each) for each in wanted.members) for member in members)
        case _, Union(members):
            return any(fits(kind, member) for member in members)
        case Function(), Function():
            return (
                len(kind.parameters) == len(wanted.parameters)
                and all(fits(b, a) for a, b in zip(kind.parameters, wanted.parameters, strict=True))
                and fits(kind.returns, wanted.returns)
            )
        case _:
            return False


def common(kinds: Iterable[Type]) -> Type:
    """The narrowest type that all of these fit: one of them, or their union."""
    return reduce(_common_of_two, kinds)


def _common_of_two(a: Type, b: Type) -> Type:
    return b if fits(a, b) else a if fits(b, a) else union((a, b))


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
