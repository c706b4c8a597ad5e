"""Keeps the bucket `spending` in step with the log, a second or two behind it.

It adds up what calls of models have cost, by day, team and caller. Each sum knows the position in the log up to which
it counts, so the log may be read again from any earlier position: every call counts once. After a restart it is read
from the beginning of yesterday on. Another replica may write too: an entry is written over the one that was read, and
after a conflict everything is read again.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from pydantic import ValidationError

from pallas_bus.connection import Bus
from pallas_bus.follow import follow
from pallas_bus.kv import get_entries, put
from pallas_bus.reads import Record
from pallas_contracts.catalog import SPENDING, TURN_EVENT, TURN_LOG
from pallas_contracts.costs import Spending, day_of
from pallas_contracts.errors import Conflict, PallasError, Unavailable
from pallas_contracts.message import utc_now
from pallas_contracts.turns import TurnEvents, caller_token
from pallas_turns.history.spending import NewCalls, position_at, spending_of, with_calls

type Key = tuple[str, str, str]
"""Day, team and caller."""


@dataclass
class SpendingFold:
    """The sums of a log that was created at `log`. Calls before the day `since` do not count."""

    log: str
    since: str
    entries: dict[Key, Spending] = field(default_factory=dict["Key", Spending])
    changed: set[Key] = field(default_factory=set["Key"])
    _calls: NewCalls = field(default_factory=NewCalls)

    def load(self, stored: Mapping[Key, Spending], last: int) -> None:
        """Begin with what is stored. `last` is the last position of the log: it may be a new one, or an older copy."""
        for key, entry in stored.items():
            position = min(entry.position, last) if entry.log == self.log else 0
            self.entries[key] = entry.model_copy(update={"position": position, "log": self.log})

    def take(self, position: int, message: TurnEvents) -> None:
        """Count the calls of models in a message of the log. Messages come in the order of the log."""
        spent: dict[Key, Spending] = {}
        for call in self._calls.of(message):
            one = spending_of(message.team, call)
            key = one.day, one.team, one.caller
            if one.day >= self.since:
                spent[key] = spent[key].plus(one) if key in spent else one
        for key, more in spent.items():
            entry = self.entries.get(key, Spending(day=key[0], team=key[1], caller=key[2]))
            if position > entry.position:
                self.entries[key] = entry.plus(more).model_copy(update={"position": position, "log": self.log})
                self.changed.add(key)

    def forget_before(self, day: str) -> None:
        """Forget the sums of earlier days; they stay in the bucket until they expire."""
        self.since = day
        self.entries = {key: entry for key, entry in self.entries.items() if key[0] >= day}
        self.changed = {key for key in self.changed if key[0] >= day}


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

    async def begin_again(self) -> None:
        """The sums were lost: count again from the log."""
        self._fold = None

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
