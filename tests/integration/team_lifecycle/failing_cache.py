"""A cache of look-ups that fails on demand, and a Redis that loses its data and is filled with old rows."""

from collections.abc import Awaitable, Callable, Collection, Mapping

from sqlalchemy.ext.asyncio import AsyncEngine
from tests.embedded import RedisServer

from pallas_contracts.auth import LookupKey, Record
from pallas_contracts.errors import Unavailable
from pallas_lookups.cache import Invalidation, LookupCache
from pallas_postgres.engine import reading
from team_lifecycle.lookups import Rows, look_up


class FailingCache(LookupCache):
    """A cache that fails on demand. `lost` is called before each refresh that fails; `asked` counts invalidations."""

    def __init__(self, inner: LookupCache) -> None:
        super().__init__(inner.redis)
        self.inner = inner
        self.invalidates: list[bool] = []
        self.refreshes: list[bool] = []
        self.short = False
        self.away = False
        self.asked = 0
        self.lost: Callable[[], Awaitable[None]] | None = None

    async def invalidate(self, keys: Collection[LookupKey]) -> Invalidation:
        """Fail when the next of `invalidates` is False, or while it is `away`."""
        self.asked += 1
        if self.away or (self.invalidates and not self.invalidates.pop(0)):
            raise Unavailable("Redis does not answer")
        done = await self.inner.invalidate(keys)
        return Invalidation(done.keys, done.generation, 0.0) if self.short else done

    async def refresh(
        self, invalidation: Invalidation, version: int, records: Mapping[LookupKey, Record | None]
    ) -> None:
        """Fail when the next of `refreshes` is False, or while it is `away`."""
        if self.refreshes and not self.refreshes.pop(0):
            if self.lost is not None:
                await self.lost()
            raise Unavailable("Redis does not answer")
        if self.away:
            raise Unavailable("Redis does not answer")
        await self.inner.refresh(invalidation, version, records)


async def truth(engine: AsyncEngine, *keys: LookupKey) -> Rows:
    """The rows in Postgres."""
    async with reading(engine) as session:
        return await look_up(session, keys)


async def fill_with_old_rows(cache: FailingCache, redis: RedisServer, before: Rows) -> None:
    """Empty Redis, and fill in the rows that a reader got from Postgres `before`."""
    redis.say("FLUSHALL")
    snapshot = await cache.inner.read(list(before.records))
    assert await cache.inner.fill(snapshot, before.version, before.records) == len(before.records)
