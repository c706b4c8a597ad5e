"""Rows of the truth, out of Redis where it has them, else from team-lifecycle.

Who asks for a row at the same moment shares one question to the truth. Nothing is kept here.
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
type AskTruth = Callable[[Lookups], Awaitable[LookedUp]]

_MOST = 500
"""Rows in one question."""


@dataclass
class ReadThrough:
    """Looks rows up."""

    cache: LookupCache
    ask: AskTruth
    _collecting: "_Batch | None" = None

    async def cached(self, keys: Sequence[LookupKey]) -> Snapshot | None:
        """What Redis has of these rows; None when it cannot be asked."""
        try:
            return await self.cache.read(keys)
        except Unavailable as error:
            log.debug("resolving without the cache", extra={"reason": error.message})
            return None

    async def row(self, found: Snapshot | None, key: LookupKey) -> tuple[Record | None, Verdict]:
        """One row: as found, or else from the truth, which is then kept in Redis.

        Raises:
            Unavailable: the truth does not answer.
        """
        if found is not None and found.has(key):
            return found.record(key), "hit"
        version, record = await self._from_truth(key)
        if found is None:
            return record, "bypass"
        await self._keep(found, key, version, record)
        return record, "miss"

    async def _keep(self, snapshot: Snapshot, key: LookupKey, version: int, record: Record | None) -> None:
        try:
            await self.cache.fill(snapshot, version, {key: record})
        except Unavailable as error:
            log.debug("not kept", extra={"reason": error.message})

    async def _from_truth(self, key: LookupKey) -> tuple[int, Record | None]:
        batch = self._collecting
        if batch is None or len(batch.wanted) >= _MOST:
            batch = self._collecting = _Batch()
            batch.answer = asyncio.create_task(self._ask(batch))
        place = batch.wanted.setdefault(key, len(batch.wanted))
        answer = await asyncio.shield(batch.answer)
        return answer.version, answer.records[place]

    async def _ask(self, batch: "_Batch") -> LookedUp:
        """Ask for what is wanted by now; who wants more shares the next question."""
        if self._collecting is batch:
            self._collecting = None
        return await self.ask(Lookups(wanted=tuple(batch.wanted)))


@dataclass(slots=True)
class _Batch:
    """Rows that are asked for in one question: each with its place."""

    wanted: dict[LookupKey, int] = field(default_factory=dict[LookupKey, int])
    answer: asyncio.Task[LookedUp] = field(init=False)
