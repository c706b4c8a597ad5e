"""The event stream of a handshake-era call: frames that carry the id of what they tell.

What a turn says is written here, past the SDK, so that an id and what it stands for go out as one piece. The SDK begins
and ends the stream, keeps it alive and writes the answer, which is given its id on the way.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.types import Message, Send

from agent_gateway.answers.progress import ProgressObserver, wanted_levels
from agent_gateway.handshake.event_ids import event_id
from agent_gateway.handshake.model import FollowedCall
from pallas_bus.turnlog.cursor import BEGINNING, Cursor
from pallas_calls.observer import Observer
from pallas_contracts.keyed import LogKey
from pallas_contracts.turns import JsonObject, LogMessage

type Write = Callable[[bytes], Awaitable[None]]

SCOPE_KEY = "pallas.event_stream"
"""Where the request's scope has its `EventStream`."""

RETRY_MS = 1000
"""What a client that lost its stream is told to wait for."""

PRIMED_SINCE = "2025-11-25"
"""The revision that knows of an event which is only an id; older clients cannot read it."""

_SDK_FRAME = b"event: message"


class EventStream:
    """An ASGI `send` for the SDK, between whose pieces others can be written."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._started = asyncio.Event()
        self._answer_id: str | None = None

    async def __call__(self, message: Message) -> None:
        """Send what the SDK sends."""
        if self._answer_id is not None and message.get("body", b"").startswith(_SDK_FRAME):
            message = {**message, "body": b"id: %s\r\n" % self._answer_id.encode() + message["body"]}
            self._answer_id = None
        await self._send(message)
        if message["type"] == "http.response.start":
            self._started.set()

    async def write(self, frame: bytes) -> None:
        """Send a frame as soon as the response has begun."""
        await self._started.wait()
        await self._send({"type": "http.response.body", "body": frame, "more_body": True})

    def number_answer(self, answer_id: str | None) -> None:
        """Give the SDK's next message, which is the answer, an id."""
        self._answer_id = answer_id


def frame_of(message: JsonObject, message_id: str | None) -> bytes:
    """A JSON-RPC message as an event."""
    numbered = f"id: {message_id}\r\n" if message_id is not None else ""
    return f"{numbered}event: message\r\ndata: {json.dumps(message, separators=(',', ':'))}\r\n\r\n".encode()


@dataclass
class StreamObserver(Observer):
    """Tells a caller of its turn on a stream, and knows which id comes next.

    `write` sends a frame. Of frames that tell of the same place only the first has its id: ids are unique.
    """

    key: LogKey
    call: FollowedCall
    write: Write
    primes: bool = False
    cursor: Cursor = BEGINNING
    remember: Callable[[], Awaitable[None]] | None = None
    listens: bool = True
    _numbered: Cursor | None = None

    def __post_init__(self) -> None:
        report = self._report if self.call.progress_token is not None else None
        self._levels = wanted_levels(self.call.log_level, modern=False)
        self._progress = ProgressObserver(self.call.ref.agent, False, report, self._write_log)

    def resumed(self, cursor: Cursor) -> None:
        """Go on behind an event whose id the caller has."""
        self.cursor = self._numbered = cursor

    async def on_admitted(self) -> None:
        """Keep which turn the request is, before anybody can cancel it."""
        if self.remember is not None:
            await self.remember()

    async def on_followed(self) -> None:
        """Give the caller an id before anything has happened, if it `primes`."""
        if self.primes:
            await self.write(f"id: {self.id_at(self.cursor)}\r\ndata: \r\nretry: {RETRY_MS}\r\n\r\n".encode())

    def id_at(self, cursor: Cursor) -> str | None:
        """The id of a frame that tells of `place`, for it to be sent now."""
        if cursor == self._numbered:
            return None
        self._numbered = cursor
        return event_id(self.key, self.call, cursor)

    async def on_event(self, said: object, cursor: Cursor, /) -> None:
        """Pass an event on, if it is of interest."""
        self.cursor = cursor
        await self._progress.on_event(said)

    async def on_queued(self, ahead: int) -> None:
        """Say how many turns are in front."""
        await self._progress.on_queued(ahead)

    async def on_attempt(self, attempt: int) -> None:
        """Say that the turn is taken up again."""
        self.cursor = Cursor(attempt)
        await self._progress.on_attempt(attempt)

    async def _report(self, progress: float, total: float | None, message: str | None) -> None:
        told = {"progressToken": self.call.progress_token, "progress": progress, "total": total, "message": message}
        await self._notify("progress", {name: value for name, value in told.items() if value is not None})

    async def _write_log(self, said: LogMessage) -> None:
        if said.level not in self._levels:
            return
        named = {"logger": said.logger} if said.logger is not None else {}
        await self._notify("message", {"level": said.level, **named, "data": said.data})

    async def _notify(self, name: str, params: JsonObject) -> None:
        message: JsonObject = {"jsonrpc": "2.0", "method": f"notifications/{name}", "params": params}
        await self.write(frame_of(message, self.id_at(self.cursor)))
