"""Makes changes of who may read what. No look-up that begins after a change was confirmed returns an older state.

1. BEGIN, and one advisory lock for all changes: they run one after the other, over all replicas.
2. The **pending** invalidations of earlier changes are carried out. If the cache is away, this change is refused.
3. The handler changes rows, and says which look-ups they touch, before and after.
4. The event is written with the next number. Numbers have no gap and are in the order of commits. The look-ups are
   written beside it, as pending invalidations (a transactional outbox), and those of 2 are deleted.
5. The look-ups are **invalidated** in the cache. If that fails, nothing is changed.
6. COMMIT, while the tombstones have time left.
7. The look-ups are **refreshed** in the cache. If that is not certain they are invalidated again: then the cache
   refuses what a reader read before the commit, even if it has lost the first tombstones. If that fails too, the change
   was made but is not confirmed; the caller may send it again.
8. The next change, or polling, deletes the pending invalidations of this one.

No change is answered before 2 is done. So when a change is repeated and finds nothing left to change, the first try has
been invalidated by then. After a crash, polling makes an empty change, which does step 2 for the changes before it.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from uuid import uuid4

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.auth import LookupKey
from pallas_contracts.catalog import LIFECYCLE_CHANGED
from pallas_contracts.errors import Unavailable
from pallas_lookups.cache import Invalidation, LookupCache
from pallas_outbox.outbox import Outbox
from pallas_postgres.engine import postgres_errors
from team_lifecycle.changes.pending import Pending, find_pending, is_any_overdue, pending_row, remove, remove_unlocked
from team_lifecycle.lookups import Rows, look_up
from team_lifecycle.metrics import Metrics
from team_lifecycle.model import Decision, Event, Who
from team_lifecycle.tables import Change, RelayPosition

log = logging.getLogger(__name__)

OUTBOX = Outbox(Change, RelayPosition, LIFECYCLE_CHANGED, lock=0x70616C6C6173)
LEFT_AT_COMMIT = 10.0
"""Seconds that tombstones must have left at the commit: far more than a commit and a refresh take."""
CONFIRM_TRIES, CONFIRM_PAUSE = 5, 0.2
"""How often look-ups are invalidated after a failed refresh, and the pause between tries in seconds."""
WAIT_SECONDS = 5.0
"""How long a change waits for the changes before it."""
POLL_SECONDS, TIDY_SECONDS = 1.0, 0.05
"""Interval of polling for pending invalidations, and the delay after which those of a completed change are deleted."""

type Decide[R] = Callable[[AsyncSession], Awaitable[Decision[R]]]


class Changes:
    """Makes changes. Calls `committed` after each one, so that its event is sent."""

    def __init__(
        self, engine: AsyncEngine, cache: LookupCache, metrics: Metrics, committed: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._cache = cache
        self._metrics = metrics
        self._committed = committed
        self._one_at_a_time = asyncio.Lock()
        self._done = set[int]()
        self._some_done = asyncio.Event()

    async def make[R](self, who: Who, decide: Decide[R], *, alone: bool = False) -> R:
        """Make the change that `decide` decides. Return its answer once no reader can get what was before.

        `alone` skips the pending invalidations of earlier changes. It is for changes that nobody waits for.

        Raises:
            Unavailable: Postgres or the cache cannot be used right now. It is unknown whether the change was made; it
                may be sent again.
            PallasError: whatever `decide` raises; nothing is changed.
        """
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._one_at_a_time.acquire()
        except TimeoutError as error:
            raise Unavailable("too many changes at once; try again", code="busy") from error
        try:
            return await self._make(who, decide, alone=alone)
        finally:
            self._one_at_a_time.release()

    async def process_pending(self) -> None:
        """Carry out pending invalidations, also of replicas that died, and delete those that are done; for ever."""
        warned = False
        while True:
            with suppress(Unavailable):
                await self._remove_done()
                if not await is_any_overdue(self._engine, self._done):
                    warned = False
                elif not await self._invalidate_overdue() and not warned:
                    log.warning("a change was committed but cannot be confirmed: the cache does not answer")
                    warned = True
            with suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS):
                    await self._some_done.wait()
                    self._some_done.clear()
                    await asyncio.sleep(TIDY_SECONDS)

    async def _remove_done(self) -> None:
        if done := frozenset(self._done):
            await remove_unlocked(self._engine, done)
            self._done -= done

    async def _invalidate_overdue(self) -> bool:
        try:
            await self.make(Who("team-lifecycle", uuid4().hex), _change_nothing)
        except Unavailable:
            return False
        return True

    async def _make[R](self, who: Who, decide: Decide[R], *, alone: bool) -> R:
        invalidation: Invalidation | None = None
        async with postgres_errors(), AsyncSession(self._engine, expire_on_commit=False) as session:
            await OUTBOX.begin(session)
            done = frozenset(self._done)
            pending = Pending.nothing() if alone else await self._invalidate_pending(session, done)
            decision = await decide(session)
            await session.flush()
            if decision.event is not None:
                await self._record(session, who, decision.event, decision.keys)
            keys = decision.keys | pending.keys
            rows = await look_up(session, sorted(keys, key=lambda key: (key.kind, key.id)))
            if keys:
                invalidation = await self._cache.invalidate(keys)
                if invalidation.until - time.monotonic() < LEFT_AT_COMMIT:
                    raise Unavailable("the change took too long; try again", code="too_slow")
            if pending.numbers:
                await remove(session, pending.numbers)
            await session.commit()
        if not alone:
            self._done -= done
        if decision.event is not None:
            self._committed()
            self._log_change(who, decision.event, rows.version)
        if invalidation is not None:
            await self._refresh(invalidation, rows)
            if decision.event is not None:
                self._done.add(rows.version)
                self._some_done.set()
        return decision.result

    async def _invalidate_pending(self, session: AsyncSession, done: Collection[int]) -> Pending:
        pending = await find_pending(session, done)
        if pending.keys:
            await self._cache.invalidate(pending.keys)
        return pending

    async def _record(self, session: AsyncSession, who: Who, event: Event, keys: Collection[LookupKey]) -> None:
        number = await OUTBOX.record(session, (event,), actor=who.actor, correlation=who.correlation)
        if keys:
            session.add(pending_row(number, keys))
            await session.flush()

    async def _refresh(self, invalidation: Invalidation, rows: Rows) -> None:
        try:
            await self._cache.refresh(invalidation, rows.version, rows.records)
        except Unavailable:
            await self._invalidate_again(invalidation.keys)

    async def _invalidate_again(self, keys: Collection[LookupKey]) -> None:
        for _ in range(CONFIRM_TRIES):
            with suppress(Unavailable):
                await self._cache.invalidate(keys)
                return
            await asyncio.sleep(CONFIRM_PAUSE)
        raise Unavailable(
            "the change was made, but some services may not see it yet; send it again", code="unconfirmed"
        )

    def _log_change(self, who: Who, event: Event, number: int) -> None:
        self._metrics.changes.labels(event.kind, event.action).inc()
        log.info(
            f"pallas_{event.kind}_{event.action}",
            extra={event.kind: event.id, "actor": who.actor, "correlation": who.correlation, "number": number},
        )


async def _change_nothing(_: AsyncSession) -> Decision[None]:
    return Decision(None)
