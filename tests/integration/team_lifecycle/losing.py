"""A cache of look-ups that is lost when a test says so, and a Redis that is filled by a reader of before a change."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncEngine
from tests.embedded import RedisServer

from pallas_contracts.auth import LookupKey, Record
from pallas_contracts.errors import Unavailable
from pallas_lookups.cache import Condemned, LookupCache
from pallas_postgres.engine import reading
from team_lifecycle.look_up import Rows, look_up


@dataclass
class Losing:
    """A cache that fails when the test says so; `lost` happens before each renewal that fails.

    `asked` counts how often something was to be condemned.
    """

    inner: LookupCache
    condemns: list[bool] = field(default_factory=list[bool])
    renews: list[bool] = field(default_factory=list[bool])
    short: bool = False
    away: bool = False
    asked: int = 0
    lost: Callable[[], Awaitable[None]] | None = None

    async def condemn(self, keys: Collection[LookupKey]) -> Condemned:
        """Fail when the next of `condemns` is False, or while it is `away`."""
        self.asked += 1
        if self.away or (self.condemns and not self.condemns.pop(0)):
            raise Unavailable("Redis does not answer")
        condemned = await self.inner.condemn(keys)
        return Condemned(condemned.keys, condemned.generation, 0.0) if self.short else condemned

    async def renew(self, condemned: Condemned, version: int, records: Mapping[LookupKey, Record | None]) -> None:
        """Fail when the next of `renews` is False, or while it is `away`."""
        if self.renews and not self.renews.pop(0):
            if self.lost is not None:
                await self.lost()
            raise Unavailable("Redis does not answer")
        if self.away:
            raise Unavailable("Redis does not answer")
        await self.inner.renew(condemned, version, records)


async def truth(engine: AsyncEngine, *keys: LookupKey) -> Rows:
    """What Postgres says."""
    async with reading(engine) as session:
        return await look_up(session, keys)


async def forget(cache: Losing, redis: RedisServer, before: Rows) -> None:
    """Redis starts anew, and is filled by a reader who asked Postgres `before`."""
    redis.say("FLUSHALL")
    snapshot = await cache.inner.read(list(before.records))
    assert await cache.inner.fill(snapshot, before.version, before.records) == len(before.records)
