"""Turns page by page, the latest first: for a console, which shows a few and asks for more.

A turn that is over stands at the time when its outcome was stored (with a filter about its caller: its last claim). One
that waits or runs stands at the time of its request. So no turn is missing between two pages, and none is on both.
"""

import asyncio
import math
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from itertools import batched

from pallas_bus.connection import Bus
from pallas_contracts.catalog import TURN_CLAIM, TURN_LOG, TURN_OUTCOME, TURN_QUEUE, TURN_REQUESTED
from pallas_turns.history.spending import time_at, windows
from pallas_turns.history.turn_list import TurnFilter, complete
from pallas_turns.history.turns import TurnHistory, fold

_POSITIONS = 40
"""Positions of the log in the first window, for each turn of the page: turns have several messages each."""


@dataclass(frozen=True, slots=True)
class TurnPage:
    """Turns, the latest first. `next` is the `until` of the next page; None: there is none.

    A page may have fewer turns than were asked for, or none, although there is a next one.
    """

    turns: tuple[TurnHistory, ...]
    next: datetime | None


async def find_page(bus: Bus, wanted: TurnFilter, *, limit: int, seconds: float = math.inf) -> TurnPage:
    """The latest `limit` turns before `wanted.until` that match. What they hold is said at `find_turns`.

    After `seconds` no further window of the log is read, and the page has what was found so far.

    Raises:
        Unavailable: the broker does not answer.
        Rejected: a team or agent is not a token (`bad_token`).
    """
    until = asyncio.get_running_loop().time() + seconds
    found = {turn.turn_id: (at, turn) for at, turn in await _under_way(bus, wanted, limit + 1)}
    over, reached = await _over(bus, wanted, limit + 1, until)  # after it: a turn may end between the two
    found |= {turn.turn_id: (at, turn) for at, turn in over}
    latest = sorted(found.values(), key=lambda each: each[0], reverse=True)
    if reached is not None:
        latest = [each for each in latest if each[0] >= reached]
    if len(latest) > limit:
        reached = latest[limit - 1][0]
    return TurnPage(tuple(turn for _, turn in latest[:limit]), reached)


async def _under_way(bus: Bus, wanted: TurnFilter, most: int) -> list[tuple[datetime, TurnHistory]]:
    """Turns in the queue that have not ended, each with the time of its request."""
    if wanted.state not in (None, "waiting", "running"):
        return []
    found: list[tuple[datetime, TurnHistory]] = []
    subject = TURN_REQUESTED.template.filter(**wanted.ids)
    async with aclosing(windows(bus, TURN_QUEUE, subject, size=most * 2)) as queue:
        async for window in queue:
            turns = {
                name: turn
                for name, turn in fold(window.records).items()
                if turn.requested_at is not None and (wanted.until is None or turn.requested_at < wanted.until)
            }
            await complete(bus, turns)
            found += [
                (turn.requested_at, turn)
                for turn in turns.values()
                if turn.requested_at is not None and turn.outcome is None and wanted.matches(turn)
            ]
            if len(found) >= most:
                break
    return found


async def _over(
    bus: Bus, wanted: TurnFilter, most: int, until: float
) -> tuple[list[tuple[datetime, TurnHistory]], datetime | None]:
    """Turns in the log that are over, the latest first, each with the time at which it stands.

    Also the time down to which the log was read, if it was not read to its end for want of time.
    """
    found: list[tuple[datetime, TurnHistory]] = []
    if not wanted.scanned:
        return found, None
    scanned = TURN_CLAIM if wanted.by_caller else TURN_OUTCOME
    seen: set[str] = set()
    reading = windows(
        bus,
        TURN_LOG,
        scanned.template.filter(**wanted.ids),
        size=most * _POSITIONS,
        since=wanted.since,
        until=wanted.until,
        keep=wanted.may_match,
    )
    async with aclosing(reading) as log:
        async for window in log:
            for some in batched(reversed(window.records), most, strict=False):
                times = {record.subject.rpartition(".")[2]: record.time for record in reversed(some)}
                turns = {name: turn for name, turn in fold(reversed(some)).items() if name not in seen}
                seen |= turns.keys()
                await complete(bus, turns)
                found += [(times[turn.turn_id], turn) for turn in _ended(turns, wanted)]
                if len(found) >= most:
                    return found, None
            if asyncio.get_running_loop().time() > until:
                return found, await time_at(bus, TURN_LOG, window.start)
    return found, None


def _ended(turns: dict[str, TurnHistory], wanted: TurnFilter) -> Iterator[TurnHistory]:
    """Those that match, without those that belong to a page before: a later claim stands there, or they run."""
    for turn in turns.values():
        last = max(turn.attempts, default=0)
        if turn.outcome is None or not wanted.matches(turn):
            continue
        if not wanted.by_caller or turn.outcome.attempt <= last:
            yield turn
