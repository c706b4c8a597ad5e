"""Resumes broken streams of handshake-era calls: `GET` with `Last-Event-ID`, at any gateway.

The event id identifies the stream and the cursor in it. What follows is read from the log and sent as on the first
stream.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio
from mcp.server.streamable_http import check_accept_headers
from mcp.server.transport_security import TransportSecurityMiddleware
from mcp.shared.exceptions import MCPError
from mcp_types import DEFAULT_NEGOTIATED_VERSION
from mcp_types.methods import serialize_server_result
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from agent_gateway.answers.refusals import refuse
from agent_gateway.answers.results import content_expired, result_of
from agent_gateway.caller import principal_of
from agent_gateway.handshake.event_ids import read_event_id
from agent_gateway.handshake.event_stream import StreamObserver, Write, frame_of
from agent_gateway.handshake.model import FollowedCall
from agent_gateway.open_streams import OpenStreams
from pallas_bus.turnlog.cursor import Cursor
from pallas_calls.model import TurnEnd
from pallas_calls.service import Calls
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.errors import Rejected
from pallas_contracts.keyed import LogKey
from pallas_contracts.turns import JsonObject
from pallas_runtime.telemetry import of_turn, tracer

log = logging.getLogger(__name__)

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
        return await self.calls.resume(call.ref, call.caller, behind, observer, progress=progress)
