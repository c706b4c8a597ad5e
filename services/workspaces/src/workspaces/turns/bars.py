"""The timeline of a turn as the bars of a waterfall.

A pipeline may have many thousands of calls. Of more than `MOST_BARS` the short ones are left out, and the bar that
contained them says how many there were and how long they took.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import inf

from pallas_turns.history.timeline import Entry, Kind
from workspaces.answers import Bar

MOST_BARS = 2_000
LONGEST_WORDS = 300

_NEEDED: Mapping[Kind, int] = {"queue": 0, "attempt": 0, "cancel": 0, "outcome": 0, "journal": 1}
_CALLS: frozenset[Kind] = frozenset({"step", "model", "tool", "agent"})
_PLURALS: Mapping[Kind, str] = {"content": "events", "journal": "entries of the journal"}


def bars_of(entries: Sequence[Entry], began: datetime, *, most: int = MOST_BARS) -> tuple[Bar, ...]:
    """The bars of a timeline, by their beginning; `began` is the time of the request. There are at most `most`."""
    kept = _kept(entries, most)
    numbers = {id(entry): number for number, entry in enumerate(kept)}
    left_out = _left_out(entries, numbers)
    return tuple(
        Bar(
            id=number,
            parent=numbers[id(entry.within)] if entry.within is not None else None,
            kind=entry.kind,
            what=_short(entry.name or entry.what),
            note=_short("; ".join(part for part in (_note(entry), _sum(left_out[number])) if part)),
            after_ms=round((entry.at - began).total_seconds() * 1000, 3),
            took_ms=round(entry.took * 1000, 3) if entry.took is not None else None,
            attempt=entry.attempt,
            failed=entry.failed,
            taken_over=entry.taken_over,
            turn_id=entry.child,
            input_tokens=entry.input_tokens,
            output_tokens=entry.output_tokens,
            cost_nanos=entry.cost.nanos if entry.cost is not None else None,
            currency=entry.cost.currency if entry.cost is not None else None,
        )
        for number, entry in enumerate(kept)
    )


def _kept(entries: Sequence[Entry], most: int) -> list[Entry]:
    """The entries that are shown, in their order, each with those that contain it."""
    if len(entries) <= most:
        return list(entries)
    chosen: set[int] = set()
    for entry in sorted(entries, key=_rank):
        chain: set[int] = set()
        each: Entry | None = entry
        while each is not None and id(each) not in chosen:
            chain.add(id(each))
            each = each.within
        if len(chosen) + len(chain) <= most:
            chosen |= chain
    return [entry for entry in entries if id(entry) in chosen]


def _rank(entry: Entry) -> tuple[int, float]:
    """The most needed first: how the turn went, then what failed, then the calls, the longest first."""
    needed = _NEEDED.get(entry.kind, 1 if entry.failed else 2 if entry.kind in _CALLS else 3)
    return needed, -(entry.took if entry.took is not None else inf)


def _left_out(entries: Sequence[Entry], numbers: Mapping[int, int]) -> dict[int, list[tuple[Entry, bool]]]:
    """What is left out, by the number of the bar that contained it, and whether it was outermost.

    What nothing contained is said at the first bar.
    """
    found: dict[int, list[tuple[Entry, bool]]] = defaultdict(list)
    for entry in entries:
        if id(entry) not in numbers:
            within = entry.within
            while within is not None and id(within) not in numbers:
                within = within.within
            found[numbers[id(within)] if within is not None else 0].append((entry, entry.within is within))
    return found


def _sum(entries: Sequence[tuple[Entry, bool]]) -> str:
    if not entries:
        return ""
    kinds = Counter[Kind](entry.kind for entry, _ in entries)
    parts = ", ".join(f"{number:,} {_PLURALS.get(kind, f'{kind}s')}" for kind, number in kinds.most_common())
    seconds = sum(entry.took or 0.0 for entry, outermost in entries if outermost)
    return f"and {len(entries):,} more: {parts} ({seconds:,.3f} s)"


def _note(entry: Entry) -> str:
    """What the bar does not say elsewhere: a model's note is its tokens, an attempt's begins with what it is."""
    if entry.kind == "model" and not entry.failed:
        return ""
    return entry.note.removeprefix(entry.what).removeprefix("; ") if entry.kind == "attempt" else entry.note


def _short(words: str) -> str:
    return words if len(words) <= LONGEST_WORDS else f"{words[:LONGEST_WORDS]}…"
