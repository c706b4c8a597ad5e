"""A JSON Schema taken apart: what each subschema costs where it applies, and which others apply with it or below it.

A `$ref` names a place in the same document. One that leads back to itself without going into the value is refused.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any
from urllib.parse import unquote

from pallas_contracts.errors import Rejected

MOST_PARTS = 1000
LONGEST_READ = 20_000
"""Characters of a text that are compared with one in a schema, or copied to explain a fault. Patterns read all."""

# The package of the contracts has these, too, and needs pydantic, which the process that checks goes without.
type Json = bool | int | float | str | list[Json] | dict[str, Json] | None
type JsonObject = dict[str, Any]

type Weigh = Callable[[str, str], int]
"""The cost of a pattern for each character that it is tried on, by the pattern and its place in the schema."""

_ALL = frozenset({"allOf", "anyOf", "oneOf"})
_ONE = frozenset({"not", "if", "then", "else"})
_NAMED = frozenset({"dependentSchemas", "dependencies"})
_NOT_APPLIED = frozenset({"$defs", "definitions"})
_IN_DEPTH = 3
"""The work of comparing a value in a list or an object."""
_RUNS = 3
"""How often the neighbours of `unevaluated...` run: they are asked which fields they have seen."""


@dataclass(slots=True)
class Part:
    """One subschema. Others are given by their numbers.

    `work` is what it costs on any value, `per_character` on a text, `per_name` on each character of a field's name.
    `same` apply to the same value, each `runs` times, `named` to the field or item of that name, `other_*` to those
    that are not named, `every_*` to all, and `names` to the names of fields.
    """

    work: int = 1
    per_character: int = 0
    per_name: int = 0
    unique: bool = False
    runs: int = 1
    same: list[int] = field(default_factory=list[int])
    named: dict[str | int, int] = field(default_factory=dict[str | int, int])
    other_properties: list[int] = field(default_factory=list[int])
    other_items: list[int] = field(default_factory=list[int])
    every_property: list[int] = field(default_factory=list[int])
    every_item: list[int] = field(default_factory=list[int])
    names: list[int] = field(default_factory=list[int])

    @property
    def same_for_all(self) -> bool:
        """Whether `work` is its cost on any value: nothing depends on a text, a field or an item."""
        below = (self.named, self.other_properties, self.other_items, self.every_property, self.every_item, self.names)
        return not (self.per_character or self.per_name or self.unique or any(below))

    def applied_at(self, step: str | int | type[str] | type[int]) -> list[int]:
        """What applies to a field by its name or an item by its position; to one that is not named by `str`, `int`."""
        of_items = step is int or isinstance(step, int)
        others, every = (
            (self.other_items, self.every_item) if of_items else (self.other_properties, self.every_property)
        )
        return [*([self.named[step]] if not isinstance(step, type) and step in self.named else others), *every]


@dataclass
class Parts:
    """All subschemas of a schema, which is the first and is one by the meta-schema.

    Raises:
        Rejected: there are too many, or a reference that is not allowed.
    """

    schema: JsonObject
    weigh: Weigh
    parts: list[Part] = field(default_factory=list[Part])
    _numbers: dict[int, int] = field(default_factory=dict[int, int])
    _waiting: list[tuple[Part, JsonObject, str]] = field(default_factory=list[tuple[Part, JsonObject, str]])

    def __post_init__(self) -> None:
        self._number(self.schema, "")
        while self._waiting:
            part, schema, place = self._waiting.pop()
            for keyword, value in schema.items():
                part.work += _compared(value) if keyword in ("const", "enum") else _length(value)
                self._take(part, keyword, value, f"{place}/{keyword}")

    def outer_first(self) -> list[int]:
        """The numbers of all parts, each before those that apply to the same value because of it."""
        try:
            return list(TopologicalSorter(dict(enumerate(part.same for part in self.parts))).static_order())[::-1]
        except CycleError:
            raise Rejected("/: a $ref leads back to itself") from None

    def _number(self, schema: JsonObject | bool, place: str) -> int:
        """The number of a subschema, which is taken apart later."""
        if id(schema) not in self._numbers:
            if len(self.parts) == MOST_PARTS:
                raise Rejected(f"/: it has more than {MOST_PARTS} subschemas")
            self._numbers[id(schema)] = len(self.parts)
            self.parts.append(Part())
            if isinstance(schema, dict):
                self._waiting.append((self.parts[-1], schema, place))
        return self._numbers[id(schema)]

    def _take(self, part: Part, keyword: str, value: Any, place: str) -> None:
        match keyword:
            case "$dynamicRef" | "$recursiveRef" | "$id" | "$dynamicAnchor":
                raise Rejected(f"{place}: only a $ref to a place in the same schema is allowed, such as #/$defs/x")
            case "$ref":
                part.same.append(self._number(self._target(value, place), place))
            case _ if keyword in _ALL:
                part.same += self._several(value, place).values()
            case _ if keyword in _ONE:
                part.same.append(self._number(value, place))
            case _ if keyword in _NAMED:
                part.same += self._several(value, place).values()
            case _ if keyword in _NOT_APPLIED:
                self._several(value, place)
            case "properties":
                part.named |= self._several(value, place)
            case "prefixItems":
                part.named |= self._several(value, place)
            case "additionalProperties":
                part.other_properties.append(self._number(value, place))
            case "items":
                part.other_items.append(self._number(value, place))
            case "patternProperties":
                part.every_property += self._several(value, place).values()
                part.per_name += sum(self.weigh(pattern, place) for pattern in value)
            case "unevaluatedProperties":
                part.every_property.append(self._number(value, place))
                part.runs = _RUNS
            case "unevaluatedItems":
                part.every_item.append(self._number(value, place))
                part.runs = _RUNS
            case "contains":
                part.every_item.append(self._number(value, place))
            case "propertyNames":
                part.names.append(self._number(value, place))
            case "pattern":
                part.per_character += self.weigh(value, place)
            case "uniqueItems":
                part.unique = value
            case _:
                pass

    def _several(self, schemas: JsonObject | list[Any], place: str) -> dict[Any, int]:
        """The numbers of subschemas in a list or an object, by position or name."""
        each = schemas.items() if isinstance(schemas, dict) else enumerate(schemas)
        return {name: self._number(schema, f"{place}/{name}") for name, schema in each if _is_schema(schema)}

    def _target(self, reference: str, place: str) -> JsonObject | bool:
        """What a `$ref` names."""
        found: Json = self.schema
        fault = Rejected(f"{place}: only a $ref to a place in the same schema is allowed, such as #/$defs/x")
        if reference != "#" and not reference.startswith("#/"):
            raise fault
        for step in unquote(reference).split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            match found:
                case dict() if step in found:
                    found = found[step]
                case list() if step.isdecimal() and int(step) < len(found):
                    found = found[int(step)]
                case _:
                    raise Rejected(f"{place}: there is nothing at {reference[:200]!r}")
        if not isinstance(found, dict | bool):
            raise fault
        return found


def size_of(value: Json, most: int | None = None) -> int:
    """The values in a value, itself included, and a share for what is read of texts; from `most` on some more."""
    total, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        total += 1
        if isinstance(each, str):
            total += min(len(each), LONGEST_READ) >> 6
        elif isinstance(each, dict):
            total += len(each)
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
        else:
            continue
        if most is not None and total + len(waiting) > most:
            return total + len(waiting)
    return total


def _compared(value: Json) -> int:
    """The work of comparing with `const` or `enum`, which goes into lists and objects."""
    options = value if isinstance(value, list) else [value]
    return 1 + sum((_IN_DEPTH if isinstance(each, dict | list) else 1) * size_of(each) for each in options)


def _length(value: Json) -> int:
    return len(value) if isinstance(value, dict | list) else 1


def _is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)
