"""Reads rows from Redis, and those that it does not have from team-lifecycle.

Concurrent reads share one question to team-lifecycle. Nothing is kept in this process.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pallas_contracts.auth import LookedUp, LookupKey, Lookups, Record
from pallas_contracts.errors import Unavailable
from pallas_lookups.cache import LookupCache, Snapshot

log = logging.getLogger(__name__)

type Verdict = Literal["hit", "miss", "bypass"]
type AskLifecycle = Callable[[Lookups], Awaitable[LookedUp]]

_MOST = 500
"""Maximum number of rows in a question."""


@dataclass
class ReadThrough:
    """A read-through cache of rows."""

    cache: LookupCache
    ask: AskLifecycle
    _collecting: "_Batch | None" = None

    async def cached(self, keys: Sequence[LookupKey]) -> Snapshot | None:
        """Read these rows from Redis. None if it is away."""
        try:
            return await self.cache.read(keys)
        except Unavailable as error:
            log.debug("resolving without the cache", extra={"reason": error.message})
            return None

    async def row(self, found: Snapshot | None, key: LookupKey) -> tuple[Record | None, Verdict]:
        """One row: as found in Redis, or else from team-lifecycle, which is then filled into Redis.

        Raises:
            Unavailable: team-lifecycle does not answer.
        """
        if found is not None and found.has(key):
            return found.record(key), "hit"
        version, record = await self._from_lifecycle(key)
        if found is None:
            return record, "bypass"
        await self._keep(found, key, version, record)
        return record, "miss"

    async def _keep(self, snapshot: Snapshot, key: LookupKey, version: int, record: Record | None) -> None:
        try:
            await self.cache.fill(snapshot, version, {key: record})
        except Unavailable as error:
            log.debug("a row was not cached", extra={"reason": error.message})

    async def _from_lifecycle(self, key: LookupKey) -> tuple[int, Record | None]:
        batch = self._collecting
        if batch is None or len(batch.wanted) >= _MOST:
            batch = self._collecting = _Batch()
            batch.answer = asyncio.create_task(self._ask(batch))
        position = batch.wanted.setdefault(key, len(batch.wanted))
        answer = await asyncio.shield(batch.answer)
        return answer.version, answer.records[position]

    async def _ask(self, batch: "_Batch") -> LookedUp:
        """Ask for the rows of a batch, and close it."""
        if self._collecting is batch:
            self._collecting = None
        return await self.ask(Lookups(wanted=tuple(batch.wanted)))


@dataclass(slots=True)
class _Batch:
    """The rows of one question, each with its position in the answer."""

    wanted: dict[LookupKey, int] = field(default_factory=dict[LookupKey, int])
    answer: asyncio.Task[LookedUp] = field(init=False)
