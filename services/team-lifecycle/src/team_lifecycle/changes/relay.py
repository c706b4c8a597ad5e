"""Sends the events of committed changes to the broker, in the order of their numbers, each at least once.

One replica relays at a time: it locks the row with the position of the relay. The replica that made a change relays it
at once if it can. Polling every half second finds events that were left by a crash, or while the broker was away. An
event that is sent again after a crash has the same message id, so the stream drops it. A stream that lost events with
the broker's store gets them again.
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
from team_lifecycle.changes.stream_end import StreamEnd
from team_lifecycle.metrics import Metrics
from team_lifecycle.tables import Change, RelayPosition

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
BATCH, BATCH_SECONDS = 100, 1.0
"""Maximum number of events, and seconds, of one transaction. Postgres ends a transaction that is idle for a few
seconds."""
PUT_SECONDS = 2.0


class Relay:
    """Relays events to the broker."""

    def __init__(self, bus: Bus, engine: AsyncEngine, committed: asyncio.Event, replicas: int) -> None:
        self._bus = bus
        self._end = StreamEnd(bus, replicas)
        self._engine = engine
        self._committed = committed
        self._warned = False

    async def run(self) -> None:
        """Send events until cancelled."""
        while True:
            self._committed.clear()
            try:
                more = await self._relay() if self._bus.connected else False
                self._warned = False
            except Unavailable as error:
                more = False
                if not self._warned:
                    log.warning("events cannot be sent; they wait in Postgres", extra={"reason": error.message})
                    self._warned = True
            if not more:
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._committed.wait()

    async def _relay(self) -> bool:
        """Send a batch, unless another replica is sending. Returns whether there is more."""
        async with postgres_errors(), AsyncSession(self._engine) as session, session.begin():
            position = await session.scalar(select(RelayPosition).with_for_update(skip_locked=True))
            if position is None:
                return False
            position.sent = await self._end.last_stored(position.sent)
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
    """Measure the events that have not been sent, until cancelled."""
    while True:
        with suppress(Unavailable):
            async with reading(engine) as session:
                sent = select(RelayPosition.sent).scalar_subquery()
                found = select(func.count(), func.min(Change.at)).where(Change.number > sent)
                count, oldest = (await session.execute(found)).one()
            metrics.unsent.set(count)
            metrics.lag.set((utc_now() - oldest).total_seconds() if count else 0.0)
        await asyncio.sleep(POLL_SECONDS)
