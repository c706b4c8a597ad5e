"""Batches of revision 2025-03-26: each message is served as if it had been sent alone, and all on one event stream.

A stream that breaks can be resumed for each of its calls: the ids of their events are those of their turns.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mcp_types import DEFAULT_NEGOTIATED_VERSION
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Send

from agent_gateway.handshake.event_stream import frame_of
from pallas_contracts.bounds import Json
from pallas_jsonrpc.messages import INVALID_REQUEST, Unreadable
from pallas_runtime.http.bodies import disconnected

type Serve = Callable[[Json, Receive, Send], Awaitable[None]]

_STREAM = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


def check_batch(messages: list[Json], headers: Headers, *, calls: int | None) -> None:
    """Check that a batch may be sent; `calls`: how many calls of tools it may have.

    Raises:
        Unreadable: the revision has no batches, or not this one.
    """
    if headers.get("mcp-protocol-version", DEFAULT_NEGOTIATED_VERSION) != DEFAULT_NEGOTIATED_VERSION:
        raise Unreadable(INVALID_REQUEST, f"only revision {DEFAULT_NEGOTIATED_VERSION} has batches")
    methods = [each.get("method") for each in messages if isinstance(each, dict)]
    if "initialize" in methods:
        raise Unreadable(INVALID_REQUEST, "initialize must not be in a batch")
    if calls is not None and methods.count("tools/call") > calls:
        raise Unreadable(INVALID_REQUEST, f"this bearer is valid for {calls} tools/call")


async def serve_batch(messages: list[Json], serve: Serve, receive: Receive, send: Send) -> None:
    """Serve all messages at the same time. When the caller disconnects, each of them is told."""
    stream, gone = _Stream(send), asyncio.ensure_future(disconnected(receive))
    try:
        async with asyncio.TaskGroup() as group:
            for message in messages:
                group.create_task(_serve_one(message, serve, gone, stream))
    finally:
        gone.cancel()
    await stream.end()


async def _serve_one(message: Json, serve: Serve, gone: asyncio.Future[None], stream: "_Stream") -> None:
    pending: list[Message] = [{"type": "http.request", "body": json.dumps(message).encode(), "more_body": False}]

    async def receive() -> Message:
        if not pending:
            await asyncio.shield(gone)
            return {"type": "http.disconnect"}
        return pending.pop()

    await serve(message, receive, _Part(stream))


@dataclass
class _Stream:
    """The response: it starts with the first frame, and is empty (202) without one."""

    send: Send
    started: bool = False

    async def write(self, frame: bytes) -> None:
        await self.start()
        await self.send({"type": "http.response.body", "body": frame, "more_body": True})

    async def start(self, status: int = 200) -> None:
        if not self.started:
            self.started = True
            headers = list(_STREAM) if status == 200 else []
            await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def end(self) -> None:
        await self.start(202)
        await self.send({"type": "http.response.body", "body": b""})


@dataclass
class _Part:
    """An ASGI `send` for the response to one message: frames are passed on, and a document becomes a frame."""

    stream: _Stream
    _streams: bool = False
    _document: bytes = b""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._streams = Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")
            if self._streams:
                await self.stream.start()
        elif self._streams:
            if frame := message.get("body", b""):
                await self.stream.write(frame)
        else:
            self._document += message.get("body", b"")
            if self._document and not message.get("more_body"):
                await self.stream.write(frame_of(json.loads(self._document), None))
