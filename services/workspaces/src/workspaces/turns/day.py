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
from pallas_turns.history.spending import NewCalls, windows, with_calls
from pallas_turns.history.turn_list import complete
from pallas_turns.history.turns import TurnHistory, fold

DAY = timedelta(days=1)
MOST_SECONDS = 3.0
MOST = 10
_POSITIONS = 10_000


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


async def read_day(bus: Bus) -> Day:
    """The worst turns that ended in the last day.

    Raises:
        Unavailable: the broker does not answer.
    """
    since = datetime.now(UTC) - DAY
    until = asyncio.get_running_loop().time() + MOST_SECONDS
    turns, spent, calls = dict[str, TurnHistory](), defaultdict[str, Counter[str]](Counter), NewCalls()
    reached, shortened = since, False
    subjects = TURN_OUTCOME.template.filter(), TURN_EVENT.template.filter()
    async with aclosing(windows(bus, TURN_LOG, *subjects, size=_POSITIONS, since=since)) as log:
        async for window in log:
            outcomes = [record for record in window.records if not _spends(record, calls, spent)]
            turns |= fold(outcomes)
            if asyncio.get_running_loop().time() > until and window.records:
                reached, shortened = min(record.time for record in window.records), True
                break
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


def _spends(record: Record, calls: NewCalls, spent: dict[str, Counter[str]]) -> bool:
    """Count what calls of models have spent. False: the message is an outcome."""
    if ".outcome." in record.subject:
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
