"""Routes HTTP requests to the agents' MCP servers and to `/rpc`, and adds what handshake-era clients need.

The SDK's transport is stateless here. `initialize` returns a session id to a handshake-era client, so that its
`notifications/cancelled` cancels its own calls only. A session stores which turn each of its requests became.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from mcp.server.transport_security import TransportSecurityMiddleware
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_gateway.answers.results import refuse, refuse_caller, refuse_unreadable
from agent_gateway.caller import Callers, identify, is_released, principal_of
from agent_gateway.handshake.batch import check_batch, serve_batch
from agent_gateway.handshake.event_stream import LAST_EVENT_ID, SCOPE_KEY, EventStream, Resumption
from agent_gateway.http.coalesce import CoalescedSend
from agent_gateway.http.drain import GatewayRequests
from agent_gateway.http.serve_rpc import RpcHttp
from agent_gateway.http.signatures import Signatures
from agent_gateway.mcp.endpoints import Endpoint, Endpoints
from agent_gateway.mcp.read_call import check_id, read_posted
from agent_gateway.mcp.request import SESSION_HEADER, request_token, session_token
from agent_gateway.mcp.serve_call import serve_call
from agent_gateway.metrics import Metrics
from agent_gateway.rpc.methods import Methods
from pallas_contracts.bounds import Json
from pallas_contracts.errors import PallasError, Rejected
from pallas_contracts.turns import Principal
from pallas_jsonrpc.messages import Unreadable
from pallas_jsonrpc.strict_json import loads
from pallas_runtime.front import of_caller
from pallas_runtime.http.bearers import bearer_of
from pallas_runtime.http.bodies import TooLarge, declares_more, lower_media_type, read_body, replayed
from pallas_runtime.http.senders import Network, name_caller
from pallas_runtime.telemetry import tracing

log = logging.getLogger(__name__)

_VERSION = b"mcp-protocol-version"
_METHOD = b"mcp-method"
_SHORT = 64 * 1024
"""Bytes of a body that is read before its sender is known."""

type CancelCall = Callable[[str, str], Awaitable[None]]


@dataclass
class GatewayHttp:
    """The ASGI application. `cancel_call(session, request)` cancels the turn of a handshake-era request."""

    endpoints: Endpoints
    callers: Callers
    cancel_call: CancelCall
    metrics: Metrics
    trusted_proxies: Sequence[Network] = ()
    signatures: Signatures = field(default_factory=lambda: Signatures({}))

    def __post_init__(self) -> None:
        self._under_way = GatewayRequests()
        platform, self._security = self.endpoints.platform, TransportSecurityMiddleware(self.endpoints.security)
        self._resumption = Resumption(platform.calls, platform.key, self._security)
        methods, limit = Methods(self.endpoints, self.metrics), self.endpoints.max_body_bytes
        self._rpc = RpcHttp(methods, self.callers, self.signatures, self._security, limit)

    async def finish(self) -> None:
        """Refuse new requests, end the subscription streams, and wait until all other requests are answered.

        When this is cancelled, the requests that are still being served are cut off.
        """
        self.endpoints.end_listening()
        await self._under_way.finish()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve `/teams/{team}/mcp/{agent}` and, while the name is unique, `/mcp/{agent}`; `/rpc` and that of teams."""
        match scope["path"].strip("/").split("/"):
            case ["rpc"]:
                await self._serve_rpc(None, scope, receive, send)
                return
            case ["teams", team, "rpc"]:
                await self._serve_rpc(team, scope, receive, send)
                return
            case ["teams", team, "mcp", agent]:
                found = self.endpoints.find(team, agent)
            case ["mcp", agent]:
                found = self.endpoints.find_unique(agent)
            case _:
                found = None
        if isinstance(found, Endpoint):
            await self.serve(found, scope, receive, send)
        else:
            await refuse(send, 404, found or "Not found. Agents are served at /teams/{team}/mcp/{agent}.")

    def dedicated_app(self, team: str, agent: str) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        """The application of an agent's dedicated port: its endpoint is `/mcp`."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            found = self.endpoints.find(team, agent) if scope["path"].rstrip("/") in ("/mcp", "") else None
            if isinstance(found, Endpoint):
                await self.serve(found, scope, receive, send)
            else:
                await refuse(send, 404, found or "Not found. The agent is served at /mcp.")

        return app

    async def serve(self, endpoint: Endpoint, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request to one agent."""
        headers = dict(scope["headers"])
        stands = scope["method"] == "GET" and not headers.get(LAST_EVENT_ID)
        waited_for = not stands and headers.get(_METHOD) != b"subscriptions/listen"
        if headers.get(b"content-type") != b"application/json":
            lower_media_type(scope)
        with endpoint.kept():
            await self._until_cut_off(partial(self._serve, endpoint), scope, receive, send, waited_for=waited_for)

    async def _serve_rpc(self, team: str | None, scope: Scope, receive: Receive, send: Send) -> None:
        await self._until_cut_off(partial(self._rpc.serve, team), scope, receive, send, rpc=True)

    async def _until_cut_off(
        self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, waited_for: bool = True, rpc: bool = False
    ) -> None:
        """Serve one request, unless this gateway is stopping; if it stops before the answer, the request is cut off."""
        if self._under_way.stopping:
            await _refuse_stopping(send, rpc=rpc)
            return
        name_caller(scope, self.trusted_proxies)
        sending = CoalescedSend(send)
        try:
            with self._under_way.serving_here(waited_for=waited_for):
                await app(scope, receive, sending)
        except ClientDisconnect:
            self.metrics.clients_gone.inc()
        except asyncio.CancelledError:
            if not self._under_way.cut and not is_released(scope):
                raise
            await _cut_off(sending, rpc=rpc)

    async def _serve(self, endpoint: Endpoint, scope: Scope, receive: Receive, send: Send) -> None:
        legacy, posted = _is_legacy(scope), scope["method"] == "POST"
        body: bytes | None = None
        try:
            bearer = self.callers.check_bearer(bearer_of(scope["headers"]))
        except PallasError as error:
            await refuse_caller(send, error)
            return
        traced = bearer is not None and tracing()
        if posted and declares_more(scope, self.endpoints.max_body_bytes):
            await refuse(send, 413, f"The body is larger than {self.endpoints.max_body_bytes} bytes.")
            return
        if posted and (legacy or traced):
            before = partial(self._check_caller, endpoint, scope, bearer, uses_up=False)
            if (body := await self._read(scope, receive, send, before)) is None:
                return
            receive = replayed(body, receive)
        with of_caller(scope["headers"], body if traced else None):
            if await self._admit(endpoint, scope, bearer, body if legacy else None, send):
                await self._serve_admitted(endpoint, scope, receive, send, body, legacy=legacy)

    async def _admit(
        self, endpoint: Endpoint, scope: Scope, bearer: str | None, body: bytes | None, send: Send
    ) -> bool:
        """Identify the caller and check that it may call the agent. False: the request has been refused."""
        uses_up = bearer is not None and scope["method"] == "POST" and _may_call(dict(scope["headers"]), body)
        try:
            await self._check_caller(endpoint, scope, bearer, uses_up=uses_up)
        except PallasError as error:
            await refuse_caller(send, error)
            return False
        return True

    async def _check_caller(self, endpoint: Endpoint, scope: Scope, bearer: str | None, *, uses_up: bool) -> None:
        """Identify the caller and check that it may call the agent.

        Raises:
            PallasError: it may not, or cannot be identified now.
        """
        known = await self.callers.identify_caller(bearer, uses_up=uses_up) if bearer is not None else None
        self.callers.check_allowed(endpoint.agent.definition, identify(scope, known))

    async def _read(
        self, scope: Scope, receive: Receive, send: Send, before: Callable[[], Awaitable[None]] | None = None
    ) -> bytes | None:
        """Read the body. None: the request has been refused."""
        try:
            return await read_body(scope, receive, self.endpoints.max_body_bytes, before=before)
        except TooLarge as error:
            await refuse(send, 413, f"{error.message.capitalize()}.")
        except PallasError as error:
            await refuse_caller(send, error)
        return None

    async def _serve_admitted(
        self, endpoint: Endpoint, scope: Scope, receive: Receive, send: Send, body: bytes | None, *, legacy: bool
    ) -> None:
        """Serve a request whose caller may call the agent; `body` is set if it has been read."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if scope["method"] == "POST":
            if body is None:
                if (body := await self._read(scope, receive, send)) is None:
                    return
                receive = replayed(body, receive)
            await self._serve_posted(endpoint, body, scope, receive, send, legacy=legacy)
        elif not legacy:
            await endpoint.handle(scope, receive, send)
        elif scope["method"] == "GET" and headers.get(LAST_EVENT_ID):
            agent = endpoint.agent
            await self._resumption.serve(agent.definition, agent.misfits, scope, receive, send)
        elif scope["method"] == "GET" and (session := _standing(endpoint, scope)):
            await endpoint.agent.standing.serve(session, self._security, scope, receive, send)
        else:
            await refuse(send, 405, "This endpoint serves POST only.", ((b"allow", b"POST"),))

    async def _serve_posted(
        self, endpoint: Endpoint, body: bytes, scope: Scope, receive: Receive, send: Send, *, legacy: bool
    ) -> None:
        """Serve what is posted, if it is JSON that means the same to every reader."""

        async def serve(message: Json, receive: Receive, send: Send) -> None:
            try:
                check_id(message)
            except Unreadable as error:
                await refuse_unreadable(send, error)
            else:
                await self._serve_message(endpoint, message, dict(scope), receive, send, legacy=legacy)

        try:
            posted = await read_posted(body)
            if legacy and isinstance(posted, list):
                calls = 1 if principal_of(scope).type == "turn" else None
                check_batch(posted, Headers(scope=scope), calls=calls)
        except Unreadable as error:
            refusal = await self._security.validate_request(Request(scope), is_post=True)
            await (refusal(scope, receive, send) if refusal is not None else refuse_unreadable(send, error))
            return
        if legacy and isinstance(posted, list):
            await serve_batch(posted, serve, receive, send)
        else:
            await self._serve_message(endpoint, posted, scope, receive, send, legacy=legacy)

    async def _serve_message(
        self, endpoint: Endpoint, message: Json, scope: Scope, receive: Receive, send: Send, *, legacy: bool
    ) -> None:
        """Serve one message, on the gateway's own path if it is a call."""
        if legacy:
            send = await self._handle_before_sdk(dict(scope["headers"]), message, principal_of(scope), send)
            scope[SCOPE_KEY] = send = EventStream(send)
        server, security = endpoint.agent.server, self._security
        if not await serve_call(server, security, message, scope, receive, send, modern=not legacy):
            await endpoint.handle(scope, receive, send)

    async def _handle_before_sdk(
        self, headers: dict[bytes, bytes], message: Json, caller: Principal, send: Send
    ) -> Send:
        """Handle a message before the SDK does: give `initialize` a session, carry out a cancel."""
        match message:
            case {"method": "initialize"}:
                return _with_session(send)
            case {"method": "notifications/cancelled", "params": {"requestId": request}}:
                session = headers.get(SESSION_HEADER.encode(), b"").decode("latin-1")
                if session:
                    await self.cancel_call(session_token(session, caller), request_token(request))
            case _:
                pass
        return send


def _is_legacy(scope: Scope) -> bool:
    """Whether a request is of the handshake era. Of several version headers the first counts, as in the SDK."""
    for name, value in scope["headers"]:
        if name == _VERSION:
            return value.decode("latin-1") in HANDSHAKE_PROTOCOL_VERSIONS
    return True


def _standing(endpoint: Endpoint, scope: Scope) -> str | None:
    """The session of a request for a standing stream; None: this agent has nothing to say on one."""
    session = dict(scope["headers"]).get(SESSION_HEADER.encode(), b"").decode("latin-1")
    return session_token(session, principal_of(scope)) if session and endpoint.agent.definition.announces else None


def _may_call(headers: dict[bytes, bytes], body: bytes | None) -> bool:
    """Whether a request may be a `tools/call`. In the modern era a header says so; the SDK refuses a wrong one.

    Else the body does: one that is long or cannot be read may be one, and so may a batch.
    """
    if body is None:
        return headers.get(_METHOD, b"tools/call") == b"tools/call"
    try:
        message = loads(body) if len(body) <= _SHORT else None
    except Rejected:
        return True
    return not isinstance(message, dict) or message.get("method", "tools/call") == "tools/call"


def _with_session(send: Send) -> Send:
    """Add a session id to the answer of an `initialize`."""
    session = (SESSION_HEADER.encode(), secrets.token_hex(16).encode())

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 200:
            message = {**message, "headers": [*message.get("headers", ()), session]}
        await send(message)

    return sending


async def _cut_off(sending: CoalescedSend, *, rpc: bool) -> None:
    """End a response without its answer. It has no `Retry-After`: the turn runs on, and a retry would make another."""
    if not sending.started:
        message = "This gateway stopped before the answer was there."
        await refuse(sending, 503, message, ((b"connection", b"close"),), rpc=rpc)
    elif not sending.ended:
        await sending({"type": "http.response.body", "body": b""})


async def _refuse_stopping(send: Send, *, rpc: bool) -> None:
    headers = ((b"retry-after", b"1"), (b"connection", b"close"))
    await refuse(send, 503, "This gateway is stopping. Try again.", headers, rpc=rpc)
