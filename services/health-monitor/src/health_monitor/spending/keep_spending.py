"""Keeps the bucket `spending` in step with the log, a second or two behind it.

After a restart it reads the log from the beginning of yesterday on; sums that were stored count on from their own
positions. Another replica may write too: an entry is written over the one that was read, and after a conflict
everything is read again.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from pydantic import ValidationError

from health_monitor.spending.fold import Key, SpendingFold
from pallas_bus.connection import Bus
from pallas_bus.follow import follow
from pallas_bus.kv import get_entries, put
from pallas_bus.reads import Record
from pallas_contracts.catalog import SPENDING, TURN_EVENT, TURN_LOG
from pallas_contracts.costs import day_of
from pallas_contracts.errors import Conflict, PallasError, Unavailable
from pallas_contracts.message import utc_now
from pallas_contracts.turns import caller_token
from pallas_turns.history.spending import position_at, with_calls

log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two reads of the log, and between two writes of what has changed."""


class KeepSpending:
    """Follows the log. Made once in a process; `run` ends when it is cancelled."""

    def __init__(self, bus: Bus, now: Callable[[], datetime] = utc_now) -> None:
        self._bus = bus
        self._now = now
        self._fold: SpendingFold | None = None
        self._after = 0
        self._stored: dict[Key, int] = {}
        self._read_at = self._fresh = time.monotonic()

    @property
    def lag(self) -> float:
        """The seconds since the log was read to its end and all of it written."""
        return time.monotonic() - self._fresh

    async def run(self) -> None:
        """Read and write for ever."""
        async with asyncio.TaskGroup() as both:
            both.create_task(follow(self._bus, TURN_LOG, TURN_EVENT.template.filter(), self, poll=EVERY))
            both.create_task(self._keep_writing())

    async def begin(self, made: str, last: int) -> int:
        """Read what is stored, unless it is known; return the position behind which to read."""
        if self._fold is None or self._fold.log != made or self._after > last:
            since = self._now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
            fold, self._stored = SpendingFold(made, day_of(since)), {}
            entries = await get_entries(self._bus, SPENDING)
            known = {(it.day, it.team, it.caller): (it, at) for it, at in entries.values() if it is not None}
            fold.load({key: entry for key, (entry, _) in known.items()}, last)
            self._stored = {key: at for key, (_, at) in known.items()}
            self._after = await position_at(self._bus, TURN_LOG, since, otherwise=last + 1) - 1
            self._fold = fold
        return self._after

    async def take(self, record: Record) -> None:
        """Count the calls in a message of the log. One that cannot be read is left out."""
        fold = self._current()
        try:
            if (message := with_calls(record)) is not None:
                fold.take(record.seq, message)
        except ValidationError:
            log.warning("unreadable events", extra={"subject": record.subject})
        self._after = record.seq

    def caught_up(self) -> None:
        """All stored messages were counted."""
        self._current()
        self._read_at = time.monotonic()

    def waits(self) -> None:
        """The log cannot be read for now; `lag` says so."""

    def _current(self) -> SpendingFold:
        if self._fold is None:
            raise Unavailable("the sums were written by another process; they are read again", code="conflict")
        return self._fold

    async def _keep_writing(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self.write()
            except Conflict:
                self._fold = None
            except PallasError as error:
                log.debug("cannot write what was spent", extra={"reason": error.message})

    async def write(self) -> None:
        """Write the sums that have changed.

        Raises:
            Conflict: another process has written one of them.
            Unavailable: the bucket cannot be written now.
        """
        fold, read_at = self._fold, self._read_at
        if fold is None:
            return
        fold.forget_before(day_of(self._now() - timedelta(days=1)))
        for key in list(fold.changed):
            entry = fold.entries[key]
            ids = {"day": entry.day, "team": entry.team, "caller": caller_token(entry.caller)}
            fold.changed.discard(key)
            try:
                self._stored[key] = await put(self._bus, SPENDING, entry, after=self._stored.get(key, 0), **ids)
            except BaseException:
                fold.changed.add(key)
                raise
        self._fresh = read_at
