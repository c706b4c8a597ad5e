"""How much work it is to check a value against a schema, found without doing it.

A checker without memory visits a subschema once for every way in which it comes to apply to a value, and a schema of a
few lines can make that exponential. So the ways are counted first: the value is walked with the multiset of subschemas
that apply at each place. Such multisets are few, and each is worked out once.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from pallas_contracts.bounds import Json
from pallas_schemas.parts import Parts

MOST_LEVELS = 100
"""Levels of a value to which a schema applies: the checker recurses into them."""

_MOST_REMEMBERED = 50_000
_UNIQUE = 50
"""The work for each item of a list without doubles."""

type _Step = str | int | type[str] | type[int]
"""A field or item that a schema names, or any other."""


@dataclass(slots=True)
class _Place:
    """Where some subschemas apply, by their numbers and how often. The others are totals over them."""

    applied: Counter[int]
    work: int = 0
    per_character: int = 0
    per_name: int = 0
    unique: int = 0
    steps: frozenset[str | int] = frozenset()
    names: "_Place | None" = None
    below: "dict[_Step, _Place | None]" = field(default_factory=lambda: dict[_Step, "_Place | None"]())


class Work:
    """Counts the work for one schema, in units of about 35 ns."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts.parts
        order = parts.outer_first()
        self._rank = [rank for rank, _ in sorted(enumerate(order), key=lambda each: each[1])]
        self._by_rank = order
        self._forget()

    def _forget(self) -> None:
        self._remembered = 0
        self._places: dict[frozenset[tuple[int, int]], _Place] = {}
        self._root = self._place(Counter([0]))

    def of(self, value: Json, most: int) -> tuple[int, int]:
        """The work of checking `value`, in all and without patterns; where that is more than `most`, more than it."""
        if self._remembered > _MOST_REMEMBERED:
            self._forget()
        total, visits, before = 0, 0, self._remembered
        waiting: list[tuple[Json, _Place, int]] = [(value, self._root, 0)]
        while waiting:
            value, place, level = waiting.pop()
            total += self._at(value, place)
            visits += place.work
            if level > MOST_LEVELS or total + 10 * (self._remembered - before) > most:
                return most + 1, most + 1
            waiting.extend((inner, below, level + 1) for inner, below in self._inside(value, place))
        return total, visits

    def _at(self, value: Json, place: _Place) -> int:
        """The work on a value without what is inside."""
        match value:
            case str():
                return place.work + place.per_character * len(value)
            case list() if place.unique:
                return place.work + _UNIQUE * place.unique * len(value)
            case dict() if place.names is not None or place.per_name:
                names = place.names or _Place(Counter())
                per_character = place.per_name + names.per_character
                return place.work + sum(names.work + per_character * len(name) for name in value)
            case _:
                return place.work

    def _inside(self, value: Json, place: _Place) -> Iterator[tuple[Json, _Place]]:
        """The fields or items to which anything applies."""
        match value:
            case dict():
                others = self._below(place, str)
                for name in value if others is not None else value.keys() & place.steps:
                    below = self._below(place, name) if name in place.steps else others
                    if below is not None:
                        yield value[name], below
            case list():
                others = self._below(place, int)
                named = [step for step in place.steps if isinstance(step, int) and step < len(value)]
                for position in range(len(value)) if others is not None else named:
                    below = self._below(place, position) if position in place.steps else others
                    if below is not None:
                        yield value[position], below
            case _:
                pass

    def _below(self, place: _Place, step: _Step) -> _Place | None:
        """Where that field or item is; None: nothing applies there."""
        if step not in place.below:
            applied = Counter[int]()
            for number, times in place.applied.items():
                for part in self._parts[number].applied_at(step):
                    applied[part] += times
            place.below[step] = self._place(applied) if applied else None
        return place.below[step]

    def _place(self, given: Counter[int]) -> _Place:
        key = frozenset(given.items())
        if key in self._places:
            return self._places[key]
        applied, names = Counter(given), Counter[int]()
        place = self._places[key] = _Place(applied)
        waiting = [self._rank[number] for number in applied]
        heapify(waiting)
        while waiting:
            number = self._by_rank[heappop(waiting)]
            part, times = self._parts[number], applied[number]
            for also in part.same:
                if also not in applied:
                    heappush(waiting, self._rank[also])
                applied[also] += times
            for name in part.names:
                names[name] += times
            place.work += times * part.work
            place.per_character += times * part.per_character
            place.per_name += times * part.per_name
            place.unique += times * part.unique
            place.steps |= part.named.keys()
        place.names = self._place(names) if names else None
        self._remembered += len(applied)
        return place
