"""How much work it is to check a value against a schema, found without doing it.

A checker without memory visits a subschema once for every way in which it comes to apply to a value, and a schema of a
few lines can make that exponential. So the ways are counted first: the value is walked with the multiset of subschemas
that apply at each place. Such multisets are few, and each is worked out once. The walk is slower than the checker. So
it leaves out values on which the work is the same whatever they are, and it is bounded, too.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from pallas_schemas.parts import Json, Parts, size_of

MOST_LEVELS = 100
"""Levels of a value to which a schema applies: the checker recurses into them."""

MOST_VALUES = 150_000
"""Values that are walked, each in 0.5 to 1.5 us."""

TOO_MUCH = "there is too much in them to check it against the tool's schema"
TOO_MANY = f"there are more than {MOST_VALUES:,} values in them that the tool's schema checks"
LONG_NUMBERS = "there are too many long numbers in them"
UNCHECKED = frozenset({TOO_MUCH, TOO_MANY, LONG_NUMBERS})
"""What is said of values that take too long to check: whether they fit is not known."""

_MOST_REMEMBERED = 50_000
_UNIQUE = 50
"""The work for each value in a list without doubles, at any depth."""

type _Step = str | int | type[str] | type[int]
"""A field or item that a schema names, or any other."""


@dataclass(slots=True)
class _Place:
    """Where some subschemas apply, by their numbers and how often. The others are totals over them.

    `same_for_all`: `work` is all the work, on any value.
    """

    applied: Counter[int]
    work: int = 0
    per_character: int = 0
    per_name: int = 0
    unique: int = 0
    same_for_all: bool = True
    steps: frozenset[str | int] = frozenset()
    names: "_Place | None" = None
    below: "dict[_Step, _Place | None]" = field(default_factory=lambda: dict[_Step, "_Place | None"]())


class TooMuch(ValueError):
    """A value takes too long to check; the message says why."""


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

    def of(self, value: Json, most: int) -> int:
        """The work of checking `value` without patterns.

        Raises:
            TooMuch: with patterns it is more than `most`, or there are more than `MOST_VALUES` values to look at.
        """
        if self._remembered > _MOST_REMEMBERED:
            self._forget()
        total, visits, values, before = 0, 0, 1, self._remembered
        waiting: list[tuple[Json, _Place, int]] = [(value, self._root, 0)]
        while waiting:
            value, place, level = waiting.pop()
            if place.unique and isinstance(value, list):
                values += (compared := size_of(value, MOST_VALUES))
                total += _UNIQUE * place.unique * compared
            total += self._at(value, place)
            visits += place.work
            for below, count, inside in self._inside(value, place) if value else ():
                values += 1 if below.same_for_all else count
                if values > MOST_VALUES:
                    raise TooMuch(TOO_MANY)
                if below.same_for_all:
                    total += count * below.work
                    visits += count * below.work
                else:
                    waiting.extend((inner, below, level + 1) for inner in inside)
            if level > MOST_LEVELS or total + 10 * (self._remembered - before) > most:
                raise TooMuch(TOO_MUCH)
        return visits

    def _at(self, value: Json, place: _Place) -> int:
        """The work on a value without what is inside."""
        match value:
            case str():
                return place.work + place.per_character * len(value)
            case dict() if place.names is not None or place.per_name:
                names = place.names or _Place(Counter())
                per_character = place.per_name + names.per_character
                return place.work + names.work * len(value) + per_character * sum(map(len, value))
            case _:
                return place.work

    def _inside(self, value: Json, place: _Place) -> Iterator[tuple[_Place, int, Iterable[Json]]]:
        """The fields or items to which anything applies: where they are, how many, and they themselves."""
        match value:
            case dict():
                named = value.keys() & place.steps
                for name in named:
                    if (below := self._below(place, name)) is not None:
                        yield below, 1, (value[name],)
                if (others := self._below(place, str)) is not None:
                    yield others, len(value) - len(named), (value[name] for name in value if name not in named)
            case list():
                positions = {step for step in place.steps if isinstance(step, int) and step < len(value)}
                for position in positions:
                    if (below := self._below(place, position)) is not None:
                        yield below, 1, (value[position],)
                if (others := self._below(place, int)) is not None:
                    rest = (inner for position, inner in enumerate(value) if position not in positions)
                    yield others, len(value) - len(positions), rest
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
                applied[also] += times * part.runs
            for name in part.names:
                names[name] += times
            place.work += times * part.work
            place.per_character += times * part.per_character
            place.per_name += times * part.per_name * part.runs
            place.unique += times * part.unique
            place.same_for_all &= part.same_for_all
            place.steps |= part.named.keys()
        place.names = self._place(names) if names else None
        self._remembered += len(applied)
        return place
