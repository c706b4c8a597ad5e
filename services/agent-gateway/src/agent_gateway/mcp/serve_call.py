"""A path of its own for `tools/call`: body, call, turn, frames of the answer, all in the task of the request.

The SDK's transports start two to ten tasks for a call and pass its messages through memory streams. Here one more task
waits until the caller disconnects, and what the call reports is sent at once. Above the transport everything is the
SDK's: `serve_one` checks the call and its result, and runs the same handler. See
`docs/adr/0016-the-gateway-has-a-path-of-its-own-for-calls.md`.
"""

import asyncio
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_one
from mcp.server.transport_security import TransportSecurityMiddleware
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, ErrorData, JSONRPCError, JSONRPCResponse, RequestId
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agent_gateway.handshake.event_stream import frame_of
from agent_gateway.mcp.read_call import METHOD, CallRequest, read_handshake, read_modern
from pallas_contracts.bounds import Json
from pallas_contracts.turns import JsonObject
from pallas_runtime.http.bodies import disconnected, while_connected

log = logging.getLogger(__name__)

PING_SECONDS = 15.0
"""Seconds between two pings. They keep proxies from closing a silent stream."""


def _from_now() -> float:
    return asyncio.get_running_loop().time() + PING_SECONDS


class CallResponse(ABC):
    """A response that is being sent. `ping_at` is the time of the next ping; None once the answer is being sent."""

    headers: tuple[tuple[bytes, bytes], ...]

    def __init__(self, send: Send, request_id: RequestId) -> None:
        self._send = send
        self._request_id: RequestId = request_id
        self._started = False
        self.ping_at: float | None = _from_now()

    async def start(self) -> None:
        """Start the stream."""
        self._started = True
        await self._send({"type": "http.response.start", "status": 200, "headers": list(self.headers)})

    async def notify(self, method: str, params: JsonObject) -> None:
        """Send a notification."""
        await self._write(frame_of({"jsonrpc": "2.0", "method": method, "params": params}, None))

    async def _write(self, frame: bytes) -> None:
        if not self._started:
            await self.start()
        await self._send({"type": "http.response.body", "body": frame, "more_body": True})

    @abstractmethod
    async def ping(self) -> None:
        """Send a ping."""

    @abstractmethod
    async def succeed(self, result: dict[str, Any]) -> None:
        """Send the result."""

    @abstractmethod
    async def fail(self, error: ErrorData) -> None:
        """Send an error."""

    @abstractmethod
    def internal_error(self, error: Exception) -> ErrorData:
        """What the caller is told of an error that is a bug."""


class ModernResponse(CallResponse):
    """An event stream from the first notification or ping on, with pings in silence. JSON if the call ends before."""

    headers = (
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-cache, no-transform"),
        (b"connection", b"keep-alive"),
        (b"x-accel-buffering", b"no"),
    )

    async def _write(self, frame: bytes) -> None:
        self.ping_at = _from_now()
        await super()._write(frame)

    async def ping(self) -> None:
        await self._write(b": ping\r\n\r\n")

    async def succeed(self, result: dict[str, Any]) -> None:
        await self._answer({"result": result}, 200)

    async def fail(self, error: ErrorData) -> None:
        dumped = error.model_dump(mode="json", by_alias=True, exclude_none=True)
        await self._answer({"error": dumped}, ERROR_CODE_HTTP_STATUS.get(error.code, 200))

    def internal_error(self, error: Exception) -> ErrorData:
        return ErrorData(code=INTERNAL_ERROR, message="Internal server error")

    async def _answer(self, answer: JsonObject, status: int) -> None:
        self.ping_at = None
        message = {"jsonrpc": "2.0", "id": self._request_id, **answer}
        if self._started:
            await self._send({"type": "http.response.body", "body": frame_of(message, None)})
            return
        body = json.dumps(message, separators=(",", ":"))
        response = Response(body, status_code=status, media_type="application/json")
        await self._send({"type": "http.response.start", "status": status, "headers": response.raw_headers})
        await self._send({"type": "http.response.body", "body": response.body})


class HandshakeResponse(CallResponse):
    """An event stream from the beginning on, with pings at a fixed interval."""

    headers = (
        (b"cache-control", b"no-cache, no-transform"),
        (b"connection", b"keep-alive"),
        (b"content-type", b"text/event-stream"),
        (b"x-accel-buffering", b"no"),
    )

    async def ping(self) -> None:
        self.ping_at = _from_now()
        await self._write(f": ping - {datetime.now(UTC)}\r\n\r\n".encode())

    async def succeed(self, result: dict[str, Any]) -> None:
        await self._answer(JSONRPCResponse(jsonrpc="2.0", id=self._request_id, result=result))

    async def fail(self, error: ErrorData) -> None:
        await self._answer(JSONRPCError(jsonrpc="2.0", id=self._request_id, error=error))

    def internal_error(self, error: Exception) -> ErrorData:
        return ErrorData(code=0, message=str(error))

    async def _answer(self, message: JSONRPCResponse | JSONRPCError) -> None:
        self.ping_at = None
        data = message.model_dump_json(by_alias=True, exclude_unset=True)
        await self._write(f"event: message\r\ndata: {data}\r\n\r\n".encode())
        await self._send({"type": "http.response.body", "body": b""})


async def serve_call(
    server: Server[Any],
    security: TransportSecurityMiddleware,
    posted: Json,
    scope: Scope,
    receive: Receive,
    send: Send,
    *,
    modern: bool,
) -> bool:
    """Serve the request if it is a well-formed `tools/call`. False: it is not, and nothing was received or sent."""
    if not isinstance(posted, dict) or posted.get("method") != METHOD:
        return False
    request = Request(scope)
    call = read_modern(server, request, posted) if modern else read_handshake(request, posted)
    if call is None:
        return False
    if (refusal := await security.validate_request(request, is_post=True)) is not None:
        await refusal(scope, receive, send)
        return True
    response = ModernResponse(send, call.request_id) if modern else HandshakeResponse(send, call.request_id)
    if not modern:
        await response.start()
    await while_connected(_execute(server, call, response), partial(_disconnected, response, receive))
    return True


async def _disconnected(response: CallResponse, receive: Receive) -> None:
    """Wait until the caller disconnects, and send the pings meanwhile."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            async with asyncio.timeout_at(response.ping_at):
                return await disconnected(receive)
        except TimeoutError:
            if response.ping_at is not None and loop.time() >= response.ping_at:
                await response.ping()


async def _execute(server: Server[Any], call: CallRequest, response: CallResponse) -> None:
    """Execute the call and send its answer."""
    transport = _Transport(call, response)
    try:
        result = await serve_one(
            server, transport, METHOD, call.params, connection=call.connection, lifespan_state=None
        )
    except MCPError as error:
        await response.fail(error.error)
    except ValidationError:
        await response.fail(ErrorData(code=INVALID_PARAMS, message="Invalid request parameters", data=""))
    except Exception as error:
        log.exception("a call failed with an unexpected error")
        await response.fail(response.internal_error(error))
    else:
        await response.succeed(result)


@dataclass(frozen=True, slots=True)
class _Transport:
    """What the SDK asks of the transport of a request (`DispatchContext`)."""

    call: CallRequest
    response: CallResponse

    @property
    def transport(self) -> TransportContext:
        return TransportContext(kind="streamable-http", can_send_request=False, headers=self.call.request.headers)

    @property
    def can_send_request(self) -> bool:
        return False

    @property
    def request_id(self) -> RequestId:
        return self.call.request_id

    @property
    def message_metadata(self) -> ServerMessageMetadata:
        return ServerMessageMetadata(request_context=self.call.request)

    @property
    def cancel_requested(self) -> anyio.Event:
        return anyio.Event()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        await self.response.notify(method, dict(params or {}))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        token = progress_token_from_params(self.call.params)
        params = {"progressToken": token, "progress": progress, "total": total, "message": message}
        if token is not None:
            given = {name: value for name, value in params.items() if value is not None}
            await self.response.notify("notifications/progress", given)
