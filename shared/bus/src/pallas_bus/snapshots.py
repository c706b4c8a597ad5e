"""Scoped reads: the subject of each request names what is read, so the broker's permissions cover it.

They are for services that may read the data of some teams only. Only the request that creates a consumer has its filter
in the subject, so every read creates a consumer in memory, which the broker removes when it is idle. That costs one
round trip more than a direct read. The broker keeps these consumers for some seconds, and each message that it stores
meanwhile is matched with all of them: whoever reads much and often should have the right to read directly.

Also snapshots of whole streams, for backups, which the broker sends to an inbox in the same way.
"""

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from nats.aio.msg import Msg

from pallas_bus.connection import Bus
from pallas_bus.errors import api_error
from pallas_bus.headers import EXPECTED, PULL_ENDED
from pallas_contracts.errors import Conflict, PallasError, Unavailable

BATCH = 100
"""Messages in one request: each may be as large as the broker accepts."""

_IDLE = 10_000_000_000
"""Nanoseconds without a request after which the broker removes a consumer."""

_NEVER = "9223372036854775807"
"""A position that no message has."""

_POLL_SECONDS = 0.02


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
    """Yield the stored messages on `subject` (wildcards allowed), in order, behind position `after` or from `since`.

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
    """Return the last message on `subject`, or None; this service must have the right to publish on `subject`.

    The replica that answers may be behind the leader. The leader's position is known from a message that the leader
    always refuses, naming the last position; this polls until a replica has the message at that position.

    Raises:
        Unavailable: the broker did not answer, or no replica had the message, within the connection's timeout.
    """
    try:
        async with asyncio.timeout(bus.timeout):
            while position := await newest_position(bus, subject):
                for message in await read_last(bus, stream, subject):
                    if message.metadata.sequence.stream >= position:
                        return message
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError as error:
        raise Unavailable(f"the newest message on {subject!r} was not found in time") from error
    return None


async def read_all(bus: Bus, stream: str, subject: str, *, after: int = 0) -> list[Msg]:
    """Return all messages on `subject` behind position `after`; this service must have the right to publish on it.

    If there are none, this is one round trip, without a consumer.

    Raises:
        Unavailable: the broker did not answer, or no replica had them all, within the connection's timeout.
    """
    try:
        async with asyncio.timeout(bus.timeout):
            while (position := await newest_position(bus, subject)) > after:
                found = [message async for message in read(bus, stream, subject, after=after)]
                if found and found[-1].metadata.sequence.stream >= position:
                    return found
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError as error:
        raise Unavailable(f"not all messages on {subject!r} were found in time") from error
    return []


async def newest_position(bus: Bus, subject: str) -> int:
    """The position of the last message on `subject`, 0 when there is none."""
    try:
        await bus.put(subject, b"", {EXPECTED: _NEVER})
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
    """The next message, or None when there are no more: pending ones have expired or were removed."""
    try:
        async with asyncio.timeout(timeout):
            message = await arrived.get()
    except TimeoutError as error:
        raise Unavailable(f"reading {stream} took longer than {timeout} s") from error
    status = (message.headers or {}).get("Status")
    if status in PULL_ENDED:
        return None
    if status is not None:
        raise Unavailable(f"reading {stream} failed: {(message.headers or {}).get('Description', status)}")
    return message


CHUNK = 512 * 1024
SILENCE = 30.0
"""Seconds without a chunk or an acknowledgement after which the transfer has failed."""
_BEGIN = 300.0
"""Seconds in which the broker begins a snapshot, for which it flushes the stream."""
NO_STREAM = 10059


@dataclass(frozen=True, slots=True)
class StreamState:
    """A stream as the broker describes it: its configuration, and its state at the moment of the snapshot."""

    config: Mapping[str, Any]
    state: Mapping[str, Any]

    @property
    def messages(self) -> int:
        """How many messages it has."""
        return int(self.state["messages"])

    @property
    def last(self) -> int:
        """The position of its last message."""
        return int(self.state["last_seq"])


@dataclass
class Snapshot:
    """A snapshot that is being received. `chunks` must be read to the end."""

    bus: Bus
    stream: StreamState
    _received: asyncio.Queue[Msg] = field(default_factory=asyncio.Queue[Msg])

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The chunks in order. The broker sends more as they are taken.

        Raises:
            Unavailable: the broker sends no more, or has given up.
        """
        name = self.stream.config["name"]
        while True:
            try:
                async with asyncio.timeout(SILENCE):
                    message = await self._received.get()
            except TimeoutError as error:
                raise Unavailable(f"the snapshot of {name!r} stopped: nothing came for {SILENCE:g} s") from error
            if not message.data:
                if (message.headers or {}).get("Status", "204") != "204":
                    why = (message.headers or {}).get("Description", "no reason given")
                    raise Unavailable(f"the broker gave up the snapshot of {name!r}: {why}")
                return
            yield message.data
            if message.reply:
                await self.bus.send(message.reply, b"")


@asynccontextmanager
async def snapshot(bus: Bus, stream: str) -> AsyncGenerator[Snapshot | None]:
    """Take a snapshot of a stream; None: there is no such stream.

    Raises:
        Unavailable: the broker does not answer.
        PallasError: it refuses; the message has the reason.
    """
    inbox, received = bus.client.new_inbox(), asyncio.Queue[Msg]()
    subscription = await bus.listen(inbox, received.put_nowait)
    try:
        answer = await bus.api(
            f"STREAM.SNAPSHOT.{stream}",
            {"deliver_subject": inbox, "no_consumers": True, "chunk_size": CHUNK},
            timeout=_BEGIN,
        )
        yield Snapshot(bus, StreamState(answer["config"], answer["state"]), received)
    except PallasError as error:
        if error.facts.get("err_code") != NO_STREAM:
            raise
        yield None
    finally:
        await bus.unsubscribe(subscription)


async def restore(bus: Bus, stream: StreamState, chunks: AsyncIterable[bytes], *, replicas: int = 1) -> None:
    """Make the stream from its snapshot, with so many replicas. There must be none of its name.

    Raises:
        Unavailable: the broker does not answer.
        PallasError: it refuses; the message has the reason.
    """
    name = stream.config["name"]
    body = {"config": {**stream.config, "num_replicas": replicas}, "state": stream.state}
    target = (await bus.api(f"STREAM.RESTORE.{name}", body))["deliver_subject"]
    async for chunk in chunks:
        _checked(await bus.request(target, chunk, timeout=SILENCE), name)
    _checked(await bus.request(target, b"", timeout=_BEGIN), name)


def _checked(answer: Msg, name: str) -> None:
    said: dict[str, Any] = json.loads(answer.data) if answer.data else {}
    if "error" in said:
        raise api_error(said["error"], f"STREAM.RESTORE.{name}")


async def stream_state(bus: Bus, stream: str) -> StreamState | None:
    """Read what a stream has; None: there is no such stream.

    Raises:
        Unavailable: the broker does not answer.
    """
    try:
        answer = await bus.api(f"STREAM.INFO.{stream}", {})
    except PallasError as error:
        if error.facts.get("err_code") != NO_STREAM:
            raise
        return None
    return StreamState(answer["config"], answer["state"])


async def delete_stream(bus: Bus, stream: str) -> None:
    """Delete a stream with everything in it.

    Raises:
        Unavailable: the broker does not answer.
    """
    await bus.api(f"STREAM.DELETE.{stream}", {}, timeout=SILENCE)
