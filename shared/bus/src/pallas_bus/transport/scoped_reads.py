"""Reading stored messages by requests whose subject says what is read, so that the broker can refuse the rest.

Only the making of a consumer names its filter like that, so every reading has a consumer of its own, in memory, which
goes by itself. That costs a round trip more than a direct get: it is for services that may read some teams only.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from nats.aio.msg import Msg

from pallas_bus.transport.connection import Bus
from pallas_contracts.errors import Conflict, Unavailable

BATCH = 100
"""Messages that are asked for at once: they may be as large as the broker takes."""

_IDLE = 10_000_000_000
"""Nanoseconds after which a consumer that nobody asks is gone."""

_NEVER = "9223372036854775807"
"""A position at which no message is."""

_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_LOOK_AGAIN = 0.02


async def read(
    bus: Bus,
    stream: str,
    subject: str,
    *,
    after: int = 0,
    since: datetime | None = None,
    batch: int = BATCH,
    timeout: float = 5.0,
) -> AsyncGenerator[Msg]:
    """Yield what the stream holds on `subject` (wildcards allowed), in order, behind position `after` or from `since`.

    Raises:
        Unavailable: the broker did not answer within `timeout` seconds.
    """
    start: dict[str, Any] = (
        {"deliver_policy": "by_start_time", "opt_start_time": since.isoformat()}
        if since is not None
        else {"deliver_policy": "by_start_sequence", "opt_start_seq": after + 1}
    )
    async for message in _consume(bus, stream, subject, start, min(batch, BATCH), timeout):
        yield message


async def read_last(bus: Bus, stream: str, subject: str, *, timeout: float = 5.0) -> list[Msg]:
    """Return the last message of every subject that matches.

    Raises:
        Unavailable: the broker did not answer within `timeout` seconds.
    """
    start = {"deliver_policy": "last_per_subject"}
    return [message async for message in _consume(bus, stream, subject, start, BATCH, timeout)]


async def read_newest(bus: Bus, stream: str, subject: str) -> Msg | None:
    """Return the last message on `subject`, on which this must be allowed to publish, as the stream's leader has it.

    A replica may be behind, so the leader is asked for the position by a message that it can only refuse.

    Raises:
        Unavailable: the broker did not answer, or every replica stayed behind.
    """
    try:
        async with asyncio.timeout(bus.timeout):
            while position := await _position(bus, subject):
                for message in await read_last(bus, stream, subject):
                    if message.metadata.sequence.stream >= position:
                        return message
                await asyncio.sleep(_LOOK_AGAIN)
    except TimeoutError as error:
        raise Unavailable(f"the newest message on {subject!r} was not found in time") from error
    return None


async def _position(bus: Bus, subject: str) -> int:
    """Where the last message on `subject` is; 0 when there is none."""
    try:
        await bus.put(subject, b"", {_EXPECTED: _NEVER})
    except Conflict as refused:
        if isinstance(last := refused.facts.get("last"), int):
            return last
        raise
    raise AssertionError("unreachable")


async def _consume(
    bus: Bus, stream: str, subject: str, start: dict[str, Any], batch: int, timeout: float
) -> AsyncGenerator[Msg]:
    name = secrets.token_hex(16)
    config = {
        **start,
        "name": name,
        "filter_subject": subject,
        "ack_policy": "none",
        "replay_policy": "instant",
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": _IDLE,
    }
    made = await bus.api(
        f"CONSUMER.CREATE.{stream}.{name}.{subject}", {"stream_name": stream, "config": config}, timeout=timeout
    )
    pending = int(made["num_pending"])
    if not pending:
        return
    async with _inbox(bus) as (inbox, arrived):
        while pending:
            body = json.dumps({"batch": batch, "no_wait": True}).encode()
            await bus.send(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}", body, reply=inbox)
            for _ in range(min(batch, pending)):
                message = await _next(arrived, stream, timeout)
                if message is None:
                    return
                pending = message.metadata.num_pending
                yield message


@asynccontextmanager
async def _inbox(bus: Bus) -> AsyncGenerator[tuple[str, asyncio.Queue[Msg]]]:
    arrived: asyncio.Queue[Msg] = asyncio.Queue()
    inbox = bus.client.new_inbox()
    subscription = await bus.subscribe(inbox, arrived.put)
    try:
        yield inbox, arrived
    finally:
        await bus.unsubscribe(subscription)


async def _next(arrived: asyncio.Queue[Msg], stream: str, timeout: float) -> Msg | None:
    """The next message, or None when there are no more after all: some expired or were removed meanwhile."""
    try:
        async with asyncio.timeout(timeout):
            message = await arrived.get()
    except TimeoutError as error:
        raise Unavailable(f"reading {stream} took longer than {timeout} s") from error
    status = (message.headers or {}).get("Status")
    if status in ("404", "408"):
        return None
    if status is not None:
        raise Unavailable(f"reading {stream} failed: {(message.headers or {}).get('Description', status)}")
    return message
