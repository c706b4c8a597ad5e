"""Publishes recorded messages again, at their original intervals or without pauses."""

import asyncio
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pallas_bus.history.recorded import Recorded, recorded
from pallas_bus.history.replayed import Target, check_unstored, publish_again
from pallas_bus.transport.connection import Bus
from pallas_cli.events.tail import filter_of
from pallas_cli.moments import span_of
from pallas_cli.plain_text import print_plain
from pallas_cli.refused import NotReachable, Refused, WrongUsage
from pallas_contracts.errors import Rejected, Unavailable

_REPORT_INTERVAL = 1.0
"""Seconds between two progress lines."""


@dataclass
class _Progress:
    """Counts messages and prints progress lines to standard error."""

    verb: str
    count: int = 0
    skipped: int = 0
    last: Recorded | None = None
    _reported: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    def at(self, message: Recorded, *, skipped: bool) -> None:
        self.last = message
        self.count += not skipped
        self.skipped += skipped
        if (now := asyncio.get_running_loop().time()) >= self._reported + _REPORT_INTERVAL:
            self._reported = now
            self.report("")

    def report(self, how: str) -> None:
        where = f", at {self.last.stream} {self.last.record.seq}" if self.last else ""
        skipped = f", {self.skipped} skipped because they are too large" if self.skipped else ""
        print_plain(f"{how}{self.count} messages {self.verb}{where}{skipped}", err=True)


async def replay(
    bus: Bus,
    *,
    since: str,
    until: str | None,
    subject: str,
    fast: bool,
    to: str | None,
    dry_run: bool,
    as_json: bool = False,
) -> None:
    """Publish recorded messages again, or with `dry_run` only count them. Progress goes to standard error.

    Raises:
        Refused: a subject or time is invalid, or the target is a subject that a stream stores.
    """
    begin, end = span_of(since, until or datetime.now(UTC).isoformat())
    assert begin is not None
    wanted, target = filter_of(subject), await _target(bus, to)
    progress, breaks = _Progress("counted" if dry_run else "published"), bus.breaks
    pace = _Pace(fast=fast or dry_run)
    try:
        async for message in recorded(bus, wanted, since=begin, until=end):
            await pace.wait(message.record.time)
            progress.at(message, skipped=not dry_run and not await _published(bus, target, message))
        if not dry_run:
            await bus.flush()
    except asyncio.CancelledError:
        progress.report("stopped: ")
        raise
    progress.report("done: ")
    if as_json:
        print(json.dumps({progress.verb: progress.count, "skipped": progress.skipped}))
    if bus.breaks != breaks:
        raise Refused("the connection to the broker was interrupted; some messages may not have been published")


@dataclass
class _Pace:
    """Waits until a message is due, measured from the first message, so that delays do not add up."""

    fast: bool
    _first: datetime | None = None
    _began: float = 0.0

    async def wait(self, time: datetime) -> None:
        if self.fast:
            return
        clock = asyncio.get_running_loop().time
        if self._first is None:
            self._first, self._began = time, clock()
        delay = self._began + (time - self._first).total_seconds() - clock()
        if delay > 0:
            await asyncio.sleep(delay)


async def _target(bus: Bus, to: str | None) -> Target:
    try:
        target = Target.parse(to) if to is not None else Target()
        await check_unstored(bus, target)
    except Rejected as error:
        raise WrongUsage(error.message) from error
    return target


async def _published(bus: Bus, target: Target, message: Recorded) -> bool:
    """Publish a message; False if its headers make it too large."""
    try:
        await publish_again(bus, target, message)
    except Rejected:
        return False
    except Unavailable as error:
        raise NotReachable(error.message) from error
    return True
