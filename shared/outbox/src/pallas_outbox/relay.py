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
from typing import Any

from prometheus_client import Gauge
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.traces import trace_headers
from pallas_contracts.changes import Changed
from pallas_contracts.errors import Unavailable
from pallas_contracts.message import utc_now
from pallas_outbox.outbox import Outbox
from pallas_outbox.rows import ChangeRow
from pallas_outbox.stream_end import StreamEnd
from pallas_postgres.engine import postgres_errors, reading

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
BATCH, BATCH_SECONDS = 100, 1.0
"""Maximum number of events, and seconds, of one transaction. Postgres ends a transaction that is idle for a few
seconds."""
PUT_SECONDS = 2.0


class Relay[M: Changed[Any]]:
    """Relays the events of an outbox. `committed` is set when there are new ones. The stream has so many `replicas`."""

    def __init__(
        self, bus: Bus, engine: AsyncEngine, outbox: Outbox[M], committed: asyncio.Event, replicas: int
    ) -> None:
        self._bus = bus
        self._outbox = outbox
        self._end = StreamEnd(bus, outbox, replicas)
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
            changes = self._outbox.changes
            position = await session.scalar(select(self._outbox.positions).with_for_update(skip_locked=True))
            if position is None:
                return False
            position.sent = await self._end.last_stored(position.sent)
            waiting = select(changes).where(changes.number > position.sent).order_by(changes.number).limit(BATCH)
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

    async def _send(self, change: ChangeRow) -> None:
        contract = self._outbox.contract
        subject = contract.template.subject(kind=change.kind, action=change.action)
        headers = trace_headers({"Nats-Msg-Id": f"{contract.name}:{change.number}"})
        payload = self._outbox.event_of(change).model_dump_json().encode()
        await self._bus.put(subject, payload, headers, timeout=PUT_SECONDS)


async def watch_lag(engine: AsyncEngine, outbox: Outbox[Any], unsent: Gauge, lag: Gauge) -> None:
    """Measure the events that have not been sent, and the age of the oldest in seconds, until cancelled."""
    changes, positions = outbox.changes, outbox.positions
    while True:
        with suppress(Unavailable):
            async with reading(engine) as session:
                sent = select(positions.sent).scalar_subquery()
                found = select(func.count(), func.min(changes.at)).where(changes.number > sent)
                count, oldest = (await session.execute(found)).one()
            unsent.set(count)
            lag.set((utc_now() - oldest).total_seconds() if count else 0.0)
        await asyncio.sleep(POLL_SECONDS)
