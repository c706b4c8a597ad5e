"""Online snapshots of streams, and streams made from them (JetStream API `STREAM.SNAPSHOT` and `STREAM.RESTORE`).

A snapshot is the stream at one moment, as the broker packs it: a compressed tar, sent in chunks that are acknowledged.
Consumers are left out: their owners make them again.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from nats.aio.msg import Msg

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.errors import api_error
from pallas_contracts.errors import PallasError, Unavailable

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
