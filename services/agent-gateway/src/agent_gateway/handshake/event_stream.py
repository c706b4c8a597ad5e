"""The event stream (SSE) of a handshake-era call, whose frames have event ids.

The events of a turn are written here, so that an id and its event are sent together. `serve_call` (or the SDK)
begins and ends the stream, sends the keep-alives and writes the answer, to which an id is added here.

How a stream is resumed (`Resumption`), and the signed ids that say from where, are here, too.
"""

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio
from mcp.server.streamable_http import check_accept_headers
from mcp.server.transport_security import TransportSecurityMiddleware
from mcp.shared.exceptions import MCPError
from mcp_types import DEFAULT_NEGOTIATED_VERSION
from mcp_types.methods import serialize_server_result
from pydantic import TypeAdapter, ValidationError
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from agent_gateway.answers.progress import ProgressObserver, wanted_levels
from agent_gateway.answers.results import content_expired, refuse, result_of
from agent_gateway.caller import principal_of
from agent_gateway.open_streams import OpenStreams
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.errors import Rejected
from pallas_contracts.keyed import LogKey
from pallas_contracts.turns import JsonObject, LogMessage, Principal
from pallas_runtime.telemetry import of_turn, tracer
from pallas_turns.calls import Calls
from pallas_turns.claims import BEGINNING, Cursor, TurnRef
from pallas_turns.model import Observer, TurnEnd

log = logging.getLogger(__name__)

type JsonRpcId = str | int


@dataclass(frozen=True, slots=True)
class FollowedCall:
    """Which turn a handshake-era call became, and which progress, log messages and text its caller wants.

    `tool` is the name of the tool if it has an output schema, which its answer is checked against.
    """

    ref: TurnRef
    request_id: JsonRpcId
    progress_token: JsonRpcId | None
    log_level: str | None
    caller: Principal
    text: bool = False
    tool: str | None = None


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
    forget: Callable[[], Awaitable[None]] | None = None
    listens: bool = True
    _numbered: Cursor | None = None
    _remembered: bool = False

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
            self._remembered = True
            await self.remember()

    async def answered(self) -> None:
        """Remove what was stored of the request: it has its answer. One whose stream broke may still be cancelled."""
        if self._remembered and self.forget is not None:
            await self.forget()

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


type Misfits = Callable[[str | None, TurnEnd], Awaitable[Sequence[str]]]
"""Checks the answer of a turn against the output schema of the tool of that name."""

MOST_RESUMED, MOST_OF_A_CALLER = 8_192, 512
"""Resumed streams that are open at a time: in all, and of one caller. Each holds what its caller has yet to read."""

LAST_EVENT_ID = b"last-event-id"

_HEADERS = {"Cache-Control": "no-cache, no-transform"}


@dataclass
class Resumption:
    """Serves the requests that resume a stream."""

    calls: Calls
    key: LogKey
    security: TransportSecurityMiddleware
    _open: OpenStreams = field(default_factory=lambda: OpenStreams("resumed streams", MOST_RESUMED, MOST_OF_A_CALLER))

    async def serve(
        self, served: AgentDefinition, misfits: Misfits, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Serve one request at the endpoint of the agent `served`, or refuse it."""
        request = Request(scope, receive)
        if (refusal := await self.security.validate_request(request)) is not None:
            await refusal(scope, receive, send)
            return
        if not check_accept_headers(request)[1]:
            await refuse(send, 406, "Not Acceptable: resuming a stream needs Accept: text/event-stream.")
            return
        token = dict(scope["headers"])[LAST_EVENT_ID].decode("latin-1")
        try:
            call, cursor = read_event_id(self.key, token, served.team, served.agent, principal_of(scope))
        except Rejected:
            await refuse(send, 400, "The Last-Event-ID was not issued to this caller at this endpoint.")
            return
        if (full := self._open.full(call.caller)) is not None:
            await refuse(send, 503, full, ((b"retry-after", b"5"),))
            return
        version = request.headers.get("mcp-protocol-version", DEFAULT_NEGOTIATED_VERSION)
        writer, reader = anyio.create_memory_object_stream[bytes](0)

        async def follow() -> None:
            async with writer:
                await self._follow(call, cursor, version, misfits, writer.send)

        with self._open.opened(call.caller):
            async with writer, reader:
                await EventSourceResponse(reader, data_sender_callable=follow, headers=_HEADERS)(scope, receive, send)

    async def _follow(self, call: FollowedCall, cursor: Cursor, version: str, misfits: Misfits, write: Write) -> None:
        """Send the rest of a turn, including the answer."""
        observer = StreamObserver(self.key, call, write)
        observer.resumed(cursor)
        with of_turn(**call.ref.facts), tracer.start_as_current_span("resume_turn"):
            log.info("stream resumed", extra={"attempt": cursor.attempt, "behind": cursor.event})
            answer = await self._answer(observer, cursor, version, misfits)
        message: JsonObject = {"jsonrpc": "2.0", "id": call.request_id, **answer}
        await write(frame_of(message, observer.id_at(observer.cursor)))

    async def _answer(self, observer: StreamObserver, cursor: Cursor, version: str, misfits: Misfits) -> JsonObject:
        """Send the events and return the end of the turn: the `result` or the `error` of the call."""
        try:
            end = await self._resume(observer, cursor)
            if end is None:
                result = content_expired(observer.call.ref.turn_id)
            else:
                observer.cursor = end.cursor
                result = result_of(end, modern=False, faults=await misfits(observer.call.tool, end))
            return {"result": serialize_server_result("tools/call", version, result)}
        except MCPError as error:
            return {"error": error.error.model_dump(mode="json", by_alias=True, exclude_none=True)}

    async def _resume(self, observer: StreamObserver, behind: Cursor) -> TurnEnd | None:
        call = observer.call
        progress = call.progress_token is not None
        return await self.calls.resume(call.ref, behind, observer, progress=progress)


USE = "event"

_CLAIMS = TypeAdapter(
    tuple[str, str, str, str, str, int, int, JsonRpcId, JsonRpcId | None, str | None]
    | tuple[str, str, str, str, str, int, int, JsonRpcId, JsonRpcId | None, str | None, bool]
    | tuple[str, str, str, str, str, int, int, JsonRpcId, JsonRpcId | None, str | None, bool, str]
)
"""Team, agent, kind and id of the caller; turn, attempt, event; request, progress token and log level; text; tool."""


def event_id(key: LogKey, call: FollowedCall, cursor: Cursor) -> str:
    """The id of the event at `cursor` on the stream of `call`."""
    ref, caller = call.ref, call.caller
    audience = (ref.team, ref.agent, caller.type, caller.id)
    request = (call.request_id, call.progress_token, call.log_level)
    more = (call.text, call.tool) if call.tool is not None else (True,) if call.text else ()
    return key.sign(USE, [*audience, ref.turn_id, *cursor, *request, *more])


def read_event_id(key: LogKey, token: str, team: str, agent: str, caller: Principal) -> tuple[FollowedCall, Cursor]:
    """The call and the cursor of an event id that `caller` has sent to the endpoint of `agent`.

    Raises:
        Rejected: the id was not made for this caller and endpoint (`bad_token`).
    """
    try:
        claims = _CLAIMS.validate_python(key.verify(USE, token))
    except ValidationError:
        raise Rejected("the event id is of another release", code="bad_token") from None
    audience, (turn, attempt, event, request_id, progress_token, log_level) = claims[:4], claims[4:10]
    text, tool = (len(claims) > 10 and claims[10]), (claims[11] if len(claims) > 11 else None)
    if audience != (team, agent, caller.type, caller.id):
        raise Rejected("the event id was made for another stream", code="bad_token")
    call = FollowedCall(TurnRef(team, agent, turn), request_id, progress_token, log_level, caller, text, tool)
    return call, Cursor(attempt, event)
