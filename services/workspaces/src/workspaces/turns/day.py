"""The worst turns of a day: the slowest, the dearest, and which agents fail. Read for some seconds at most."""

import asyncio
import heapq
from collections import Counter, defaultdict
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pydantic import ValidationError

from pallas_bus.connection import Bus
from pallas_bus.reads import Record
from pallas_contracts.catalog import TURN_EVENT, TURN_LOG, TURN_OUTCOME
from pallas_turns.history.spending import NewCalls, has_calls, windows, with_calls
from pallas_turns.history.turn_list import complete
from pallas_turns.history.turns import TurnHistory, fold

DAY = timedelta(days=1)
MOST_SECONDS = 3.0
KEPT_SECONDS = 30.0
MOST = 10
_POSITIONS = 10_000
"""Positions of the log whose messages are held at once."""


@dataclass(frozen=True, slots=True)
class Day:
    """What was found since a time. `dearest` has the spending of each turn in billionths of a currency."""

    since: datetime
    shortened: bool
    turns: int
    failed: int
    slowest: list[TurnHistory]
    dearest: list[tuple[TurnHistory, int, str]]
    failing: list[tuple[tuple[str, str, str], int, str]]

    @property
    def shown(self) -> list[TurnHistory]:
        """All turns that are named."""
        return list({turn.turn_id: turn for turn in (*self.slowest, *(turn for turn, *_ in self.dearest))}.values())


class Days:
    """Reads the day, one caller at a time. What was found is the answer for half a minute."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self._found: Day | None = None
        self._until = 0.0

    async def read(self, bus: Bus) -> Day:
        """The worst turns that ended in the last day.

        Raises:
            Unavailable: the broker does not answer.
        """
        clock = asyncio.get_running_loop().time
        async with self._one:
            if self._found is None or clock() > self._until:
                self._found = await read_day(bus)
                self._until = clock() + KEPT_SECONDS
            return self._found


async def read_day(bus: Bus) -> Day:
    """The worst turns that ended in the last day.

    Raises:
        Unavailable: the broker does not answer.
    """
    since = datetime.now(UTC) - DAY
    turns, spent, calls = dict[str, TurnHistory](), defaultdict[str, Counter[str]](Counter), NewCalls()
    reached, shortened = datetime.now(UTC), False
    subjects = TURN_OUTCOME.template.filter(), TURN_EVENT.template.filter()
    log = windows(bus, TURN_LOG, *subjects, size=_POSITIONS, largest=_POSITIONS, since=since, keep=_counts)
    try:
        async with aclosing(log), asyncio.timeout(MOST_SECONDS):
            async for window in log:
                turns |= fold(record for record in window.records if not _spends(record, calls, spent))
                reached = min((record.time for record in window.records), default=reached)
    except TimeoutError:
        shortened = True
    else:
        reached = since
    ended = {name: turn for name, turn in turns.items() if turn.outcome is not None}
    slowest = heapq.nlargest(MOST, ended.values(), key=_seconds)
    by_price = ((nanos, name, currency) for name, sums in spent.items() for currency, nanos in sums.items())
    dearest = [
        (ended[name], nanos, currency) for nanos, name, currency in sorted(by_price, reverse=True) if name in ended
    ]
    failures = defaultdict[tuple[str, str, str], list[TurnHistory]](list)
    for turn in ended.values():
        if turn.outcome is not None and turn.outcome.status == "failed":
            failures[turn.team, turn.agent, turn.outcome.code or "failed"].append(turn)
    failing = [(of, len(some), max(some, key=_end).turn_id) for of, some in failures.items()]
    day = Day(
        since=reached,
        shortened=shortened,
        turns=len(ended),
        failed=sum(map(len, failures.values())),
        slowest=slowest,
        dearest=dearest[:MOST],
        failing=heapq.nlargest(MOST, failing, key=lambda one: one[1]),
    )
    await complete(bus, {turn.turn_id: turn for turn in day.shown})
    return day


def _counts(record: Record) -> bool:
    return _is_outcome(record) or has_calls(record)


def _is_outcome(record: Record) -> bool:
    return ".outcome." in record.subject


def _spends(record: Record, calls: NewCalls, spent: dict[str, Counter[str]]) -> bool:
    """Count what calls of models have spent. False: the message is an outcome."""
    if _is_outcome(record):
        return False
    try:
        message = with_calls(record)
    except ValidationError:
        return True
    if message is not None:
        for call in calls.of(message):
            if call.cost is not None:
                spent[message.turn_id][call.cost.currency] += call.cost.nanos
    return True


def _seconds(turn: TurnHistory) -> float:
    return (_end(turn) - turn.requested_at).total_seconds() if turn.requested_at is not None else 0.0


def _end(turn: TurnHistory) -> datetime:
    assert turn.outcome is not None, "it has ended"
    return turn.outcome.ended_at
