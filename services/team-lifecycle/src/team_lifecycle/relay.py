"""Sends the events of committed changes to the broker, in the order of their numbers, each at least once.

Over all replicas one relays at a time: it holds the row that says how far the broker is. Whoever made a change relays
it at once when it can; a look every half second finds what was left by one that died, or while the broker was away.
What is sent again after a crash has the same message id, and the stream drops it. A stream that has lost changes, with
the broker's store, gets them all again.
"""

import asyncio
import logging
import time
from contextlib import suppress

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.traces import trace_headers
from pallas_contracts.auth import LifecycleChanged
from pallas_contracts.catalog import LIFECYCLE_CHANGED
from pallas_contracts.errors import Unavailable
from pallas_contracts.message import utc_now
from pallas_postgres.engine import postgres_errors, reading
from team_lifecycle.metrics import Metrics
from team_lifecycle.stream_end import StreamEnd
from team_lifecycle.tables import Change, RelayPosition

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
BATCH, BATCH_SECONDS = 100, 1.0
"""Events of one transaction, and the seconds after which it ends with those that were sent: Postgres ends one in which
nothing is said for a few seconds."""
PUT_SECONDS = 2.0


class Relay:
    """Relays until it is cancelled."""

    def __init__(self, bus: Bus, engine: AsyncEngine, committed: asyncio.Event, replicas: int) -> None:
        self._bus = bus
        self._end = StreamEnd(bus, replicas)
        self._engine = engine
        self._committed = committed
        self._told = False

    async def run(self) -> None:
        """Send what there is, and wait for more."""
        while True:
            self._committed.clear()
            try:
                more = await self._relay() if self._bus.connected else False
                self._told = False
            except Unavailable as error:
                more = False
                if not self._told:
                    log.warning("events wait", extra={"reason": error.message})
                    self._told = True
            if not more:
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._committed.wait()

    async def _relay(self) -> bool:
        """Send a batch, unless another replica does; return whether there is more."""
        async with postgres_errors(), AsyncSession(self._engine) as session, session.begin():
            position = await session.scalar(select(RelayPosition).with_for_update(skip_locked=True))
            if position is None:
                return False
            position.sent = await self._end.stored_of(position.sent)
            waiting = select(Change).where(Change.number > position.sent).order_by(Change.number).limit(BATCH)
            batch = (await session.scalars(waiting)).all()
            failed: Unavailable | None = None
            began, late = time.monotonic(), False
            for change in batch:
                if late := time.monotonic() - began > BATCH_SECONDS:
                    break
                try:
                    await self._send(change)
                except Unavailable as error:
                    failed = error
                    break
                position.sent = change.number
        if failed is not None:
            raise failed
        return late or len(batch) == BATCH

    async def _send(self, change: Change) -> None:
        event = LifecycleChanged.model_validate(
            {
                "number": change.number,
                "kind": change.kind,
                "action": change.action,
                "id": change.subject,
                "actor": change.actor,
                "correlation": change.correlation,
                "data": change.data,
                "at": change.at,
            }
        )
        subject = LIFECYCLE_CHANGED.template.subject(kind=change.kind, action=change.action)
        headers = trace_headers({"Nats-Msg-Id": f"{LIFECYCLE_CHANGED.name}:{change.number}"})
        await self._bus.put(subject, event.model_dump_json().encode(), headers, timeout=PUT_SECONDS)


async def watch_lag(engine: AsyncEngine, metrics: Metrics) -> None:
    """Measure what has not been sent yet, whoever sends it and whether or not the broker is there."""
    while True:
        with suppress(Unavailable):
            async with reading(engine) as session:
                sent = select(RelayPosition.sent).scalar_subquery()
                found = select(func.count(), func.min(Change.at)).where(Change.number > sent)
                count, oldest = (await session.execute(found)).one()
            metrics.unsent.set(count)
            metrics.lag.set((utc_now() - oldest).total_seconds() if count else 0.0)
        await asyncio.sleep(POLL_SECONDS)
