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
from pydantic import ValidationError
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_bus.connection import Bus
from pallas_bus.headers import trace_headers
from pallas_bus.reads import read_newest
from pallas_bus.streams import declare
from pallas_contracts.changes import Changed
from pallas_contracts.errors import Unavailable
from pallas_contracts.message import utc_now
from pallas_outbox.outbox import ChangeRow, Outbox
from pallas_postgres.engine import postgres_errors, reading

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
BATCH, BATCH_SECONDS = 100, 1.0
"""Maximum number of events, and seconds, of one transaction. Postgres ends a transaction that is idle for a few
seconds."""
PUT_SECONDS, DECLARE_SECONDS = 2.0, 5.0


class StreamEnd[M: Changed[Any]]:
    """The end of the stream of an outbox, which is declared with so many `replicas`.

    A stream that was lost with the broker's store has less than was sent. Only the replica that relays looks, so one
    replica at a time declares the stream.
    """

    def __init__(self, bus: Bus, outbox: Outbox[M], replicas: int) -> None:
        self._bus = bus
        self._contract, self._stream = outbox.contract, outbox.stream
        self._replicas = replicas
        self._declared = False
        self._lost_behind: int | None = None

    async def last_stored(self, sent: int) -> int:
        """The number of the last change that the stream has. Changes after it are to be sent again.

        Raises:
            Unavailable: the broker does not answer, or cannot make the stream.
        """
        stored = await self._last()
        if stored is None or stored >= sent:
            self._lost_behind = None
            return sent
        # A stream that was purged drops recent changes as duplicates. They are not sent again for ever.
        if stored == self._lost_behind:
            return sent
        self._lost_behind = stored
        log.warning("the stream has lost changes; sending them again", extra={"stored": stored, "sent": sent})
        return stored

    async def _last(self) -> int | None:
        """The number of the last stored change, 0 without any, None if it cannot be decoded."""
        if not self._declared:
            await declare(self._bus, self._stream, replicas=self._replicas, timeout=DECLARE_SECONDS)
            self._declared = True
        try:
            last = await read_newest(self._bus, self._stream.name, self._contract.template.filter())
            return self._contract.message.model_validate_json(last.data).number if last is not None else 0
        except ValidationError:
            return None
        except Unavailable as error:
            # The next call declares it again.
            self._declared = self._declared and error.code != "no_stream"
            raise


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
