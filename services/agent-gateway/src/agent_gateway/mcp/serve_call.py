"""A path of its own for `tools/call`: body, call, turn, frames of the answer, all in the task of the request.

The SDK's transports start two to ten tasks for a call and pass its messages through memory streams. Here one more task
waits until the caller disconnects, and what the call reports is sent at once. Above the transport everything is the
SDK's: `serve_one` checks the call and its result, and runs the same handler. See
`docs/adr/0016-the-gateway-has-a-path-of-its-own-for-calls.md`.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_one
from mcp.server.transport_security import TransportSecurityMiddleware
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.transport_context import TransportContext
from mcp_types import INVALID_PARAMS, ErrorData, RequestId
from pydantic import ValidationError
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from agent_gateway.mcp.call_response import CallResponse, HandshakeResponse, ModernResponse
from agent_gateway.mcp.read_call import METHOD, CallRequest, read_handshake, read_modern
from pallas_contracts.bounds import Json
from pallas_runtime.http.connected import disconnected, while_connected

log = logging.getLogger(__name__)


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
