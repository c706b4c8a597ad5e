"""The event stream (SSE) of a handshake-era call, whose frames have event ids.

The events of a turn are written here, so that an id and its event are sent together. `mcp/call_response` (or the SDK)
begins and ends the stream, sends the keep-alives and writes the answer, to which an id is added here.
"""

import asyncio
import json
import re
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
"""The key of the `EventStream` in the request's scope."""

RETRY_MS = 1000
"""Milliseconds that a client should wait before it resumes a broken stream."""

PRIMED_SINCE = "2025-11-25"
"""The first revision with an event that is only an id; older clients cannot read it."""

_ANSWER = b"event: message"

_LINE_ENDS = re.compile(rb"\xe2\x80[\xa8\xa9]|\xc2\x85")
"""U+2028, U+2029 and U+0085. They end no line of an event stream, but some clients take them for the end of one."""

_to_json = json.JSONEncoder(separators=(",", ":")).encode


class EventStream:
    """An ASGI `send` for the response; `write` sends further frames in between."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._started = asyncio.Event()
        self._answer_id: str | None = None

    async def __call__(self, message: Message) -> None:
        """Pass on a message of the response."""
        if message.get("body"):
            message = {**message, "body": _LINE_ENDS.sub(_escaped, message["body"])}
        if self._answer_id is not None and message.get("body", b"").startswith(_ANSWER):
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
        """Add an id to the next message of the response, which is the answer."""
        self._answer_id = answer_id


def _escaped(found: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(found[0].decode())


def frame_of(message: JsonObject, message_id: str | None) -> bytes:
    """A JSON-RPC message as an SSE event."""
    numbered = f"id: {message_id}\r\n" if message_id is not None else ""
    return f"{numbered}event: message\r\ndata: {_to_json(message)}\r\n\r\n".encode()


@dataclass
class StreamObserver(Observer):
    """Sends the events of a turn on a resumable stream, with their ids.

    `write` sends a frame. Of frames with the same cursor only the first has an id, because ids are unique.
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
        self.text = self.call.text and report is not None
        self._progress = ProgressObserver(self.call.ref.agent, False, report, self._write_log, text=self.text)

    def resumed(self, cursor: Cursor) -> None:
        """Continue behind an event whose id the caller has."""
        self.cursor = self._numbered = cursor

    async def on_admitted(self) -> None:
        """Store which turn the request became, before it can be cancelled."""
        if self.remember is not None:
            await self.remember()

    async def on_followed(self) -> None:
        """Send an id before the first event, if `primes` is set."""
        if self.primes:
            await self.write(f"id: {self.id_at(self.cursor)}\r\ndata: \r\nretry: {RETRY_MS}\r\n\r\n".encode())

    def id_at(self, cursor: Cursor) -> str | None:
        """The id of the next frame, whose cursor is `cursor`; None when a frame has had that id."""
        if cursor == self._numbered:
            return None
        self._numbered = cursor
        return event_id(self.key, self.call, cursor)

    async def on_event(self, event: object, cursor: Cursor, /) -> None:
        """Pass on log messages, progress and text. Text that was held back comes before, under its own id."""
        if self.text:
            await self._progress.flush_before(event)
        self.cursor = cursor
        await self._progress.on_event(event)

    async def on_queued(self, ahead: int) -> None:
        """Report how many turns are in front."""
        await self._progress.on_queued(ahead)

    async def on_attempt(self, attempt: int) -> None:
        """Report that the turn is executed again."""
        self.cursor = Cursor(attempt)
        await self._progress.on_attempt(attempt)

    async def _report(self, progress: float, total: float | None, message: str | None) -> None:
        params = {"progressToken": self.call.progress_token, "progress": progress, "total": total, "message": message}
        await self._notify("progress", {name: value for name, value in params.items() if value is not None})

    async def _write_log(self, entry: LogMessage) -> None:
        if entry.level not in self._levels:
            return
        logger = {"logger": entry.logger} if entry.logger is not None else {}
        await self._notify("message", {"level": entry.level, **logger, "data": entry.data})

    async def _notify(self, name: str, params: JsonObject) -> None:
        message: JsonObject = {"jsonrpc": "2.0", "method": f"notifications/{name}", "params": params}
        await self.write(frame_of(message, self.id_at(self.cursor)))
