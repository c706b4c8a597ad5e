"""How the truth changes, so that no answer given after a change has been confirmed is older than it.

1. BEGIN, and one lock for all changes: they happen one after the other, over all replicas.
2. What earlier changes have left **unsettled** is condemned in the cache. If it cannot be, this change is refused.
3. The handler changes rows and says which look-ups that touches, as they were before and as they are now.
4. The look-ups are **condemned** in the cache. If they cannot be, nothing is changed.
5. The event is written beside the change, under the next number. Numbers have no gap and are in the order of commits.
   So are the look-ups, as unsettled, and those of 2 are removed.
6. COMMIT, while the tombstones have time left.
7. The look-ups are **renewed** in the cache. If that is not certain they are condemned once more: whatever a reader
   has read before the commit is then refused, also by a cache that has forgotten the first tombstones. If not even that
   can be done the change is not confirmed, although it was made; it may be sent again.
8. The look-ups are settled: their row is removed by the next change, or by whoever looks around.

Nothing is answered before 2 is done: a change that is repeated, or that finds nothing to change, never hides one that
was committed without being confirmed. Whoever looks around sees to what a crash has left, by a change of nothing.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from uuid import uuid4

from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.auth import LookupKey
from pallas_contracts.errors import Unavailable
from pallas_contracts.message import utc_now
from pallas_lookups.cache import Condemned
from pallas_postgres.engine import postgres_errors
from team_lifecycle.look_up import Rows, look_up
from team_lifecycle.metrics import Metrics
from team_lifecycle.model import Decision, Event, Who
from team_lifecycle.ports import Cache
from team_lifecycle.tables import Change
from team_lifecycle.unsettled import Left, find_left, is_any_left, remove, remove_free, unsettled

log = logging.getLogger(__name__)

CHANGES_LOCK = 0x70616C6C6173
"""The advisory lock of all changes."""
LEFT_AT_COMMIT = 10.0
"""Seconds that tombstones must have left when a change is committed: far more than a commit and a renewal take."""
CONFIRM_TRIES, CONFIRM_PAUSE = 5, 0.2
"""How often, and after how many seconds each, a renewal that failed is made up for."""
TURN_SECONDS = 5.0
"""How long a change waits for the one before it."""
POLL_SECONDS, TIDY_SECONDS = 1.0, 0.05
"""How often it is looked for what changes have left, and how soon what is settled is removed when no change follows."""

type Decide[R] = Callable[[AsyncSession], Awaitable[Decision[R]]]


class Changes:
    """Makes changes. `committed` is called after each one, to have its event sent."""

    def __init__(self, engine: AsyncEngine, cache: Cache, metrics: Metrics, committed: Callable[[], None]) -> None:
        self._engine = engine
        self._cache = cache
        self._metrics = metrics
        self._committed = committed
        self._turn = asyncio.Lock()
        self._settled = set[int]()
        self._some_settled = asyncio.Event()

    async def make[R](self, who: Who, decide: Decide[R], *, alone: bool = False) -> R:
        """Change what `decide` decides, and return its answer once nobody can be answered by what was before.

        `alone` is for what says nothing to anybody: it does not wait until what earlier changes have left is settled.

        Raises:
            Unavailable: Postgres or the cache cannot be used right now. Whether the change was made is then unknown;
                it may be sent again.
            PallasError: whatever `decide` raises; nothing is changed.
        """
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._turn.acquire()
        except TimeoutError as error:
            raise Unavailable("too many changes at once; try again", code="busy") from error
        try:
            return await self._make(who, decide, alone=alone)
        finally:
            self._turn.release()

    async def look_around(self) -> None:
        """Remove what is settled, and settle what changes have left, also those of replicas that died; for ever."""
        told = False
        while True:
            with suppress(Unavailable):
                await self._tidy()
                if not await is_any_left(self._engine, self._settled):
                    told = False
                elif not await self._settle_left() and not told:
                    log.warning("a change that was made cannot be confirmed yet")
                    told = True
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._some_settled.wait()
                    self._some_settled.clear()
                    await asyncio.sleep(TIDY_SECONDS)

    async def _tidy(self) -> None:
        if settled := frozenset(self._settled):
            await remove_free(self._engine, settled)
            self._settled -= settled

    async def _settle_left(self) -> bool:
        try:
            await self.make(Who("team-lifecycle", uuid4().hex), _nothing)
        except Unavailable:
            return False
        return True

    async def _make[R](self, who: Who, decide: Decide[R], *, alone: bool) -> R:
        condemned: Condemned | None = None
        async with postgres_errors(), AsyncSession(self._engine, expire_on_commit=False) as session, session.begin():
            await session.execute(text("select pg_advisory_xact_lock(:lock)"), {"lock": CHANGES_LOCK})
            settled = frozenset(self._settled)
            left = Left.nothing() if alone else await self._condemn_left(session, settled)
            decision = await decide(session)
            await session.flush()
            if decision.event is not None:
                await self._record(session, who, decision.event, decision.keys)
            keys = decision.keys | left.keys
            rows = await look_up(session, sorted(keys, key=lambda key: (key.kind, key.id)))
            if keys:
                condemned = await self._cache.condemn(keys)
                if condemned.until - time.monotonic() < LEFT_AT_COMMIT:
                    raise Unavailable("the change took too long; try again", code="too_slow")
            if left.numbers:
                await remove(session, left.numbers)
        if not alone:
            self._settled -= settled
        if decision.event is not None:
            self._committed()
            self._tell(who, decision.event, rows.version)
        if condemned is not None:
            await self._renew(condemned, rows)
            self._settle(rows.version if decision.event is not None else None)
        return decision.result

    async def _condemn_left(self, session: AsyncSession, settled: Collection[int]) -> Left:
        left = await find_left(session, settled)
        if left.keys:
            await self._cache.condemn(left.keys)
        return left

    def _settle(self, number: int | None) -> None:
        if number is not None:
            self._settled.add(number)
            self._some_settled.set()

    async def _record(self, session: AsyncSession, who: Who, event: Event, keys: Collection[LookupKey]) -> None:
        number = 1 + (await session.scalar(select(func.coalesce(func.max(Change.number), 0))) or 0)
        session.add(
            Change(
                number=number,
                kind=event.kind,
                action=event.action,
                subject=event.id,
                actor=who.actor,
                correlation=who.correlation,
                data=event.data,
                at=utc_now(),
            )
        )
        if keys:
            session.add(unsettled(number, keys))
        await session.flush()

    async def _renew(self, condemned: Condemned, rows: Rows) -> None:
        try:
            await self._cache.renew(condemned, rows.version, rows.records)
        except Unavailable:
            await self._condemn_again(condemned.keys)

    async def _condemn_again(self, keys: Collection[LookupKey]) -> None:
        for _ in range(CONFIRM_TRIES):
            with suppress(Unavailable):
                await self._cache.condemn(keys)
                return
            await asyncio.sleep(CONFIRM_PAUSE)
        raise Unavailable(
            "the change was made, but it is not certain that everybody knows; send it again", code="unconfirmed"
        )

    def _tell(self, who: Who, event: Event, number: int) -> None:
        self._metrics.changes.labels(event.kind, event.action).inc()
        log.info(
            f"pallas_{event.kind}_{event.action}",
            extra={event.kind: event.id, "actor": who.actor, "correlation": who.correlation, "number": number},
        )


async def _nothing(_: AsyncSession) -> Decision[None]:
    return Decision(None)
