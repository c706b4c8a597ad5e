"""The HTTP interface: `/rpc` is a WebSocket of JSON-RPC, for agents."""

import asyncio
from functools import partial

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from data_pool.http.agent_socket import AgentSocket
from data_pool.methods import AgentMethods
from pallas_contracts.errors import Denied, PallasError
from pallas_contracts.turns import Principal
from pallas_runtime.http.bearers import Bearers, bearer_of
from pallas_runtime.http.problems import problem
from pallas_runtime.http.senders import AcceptedHosts

PATH = "/rpc"


class AgentHttp:
    """The ASGI application. A caller has at most `most` connections."""

    def __init__(self, methods: AgentMethods, bearers: Bearers, hosts: AcceptedHosts | None, most: int) -> None:
        self._methods = methods
        self._most = most
        self._bearers = bearers
        self._hosts = hosts
        self._sockets = set[AgentSocket]()
        self._stopping = False

    @property
    def connected(self) -> int:
        """How many agents are connected."""
        return sum(len(socket.calls.agents) for socket in self._sockets)

    async def finish(self) -> None:
        """Refuse new connections, and close each of the others as soon as no call over it is under way."""
        self._stopping = True
        await asyncio.gather(*(socket.finish() for socket in self._sockets))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "http":
            await _refusal(scope)(scope, receive, send)
            return
        socket = WebSocket(scope, receive, send)
        made = await self._admit(socket)
        if isinstance(made, Response):
            await socket.send_denial_response(made)
            return
        self._sockets.add(made)
        try:
            await socket.accept()
            await made.serve()
        finally:
            self._sockets.discard(made)

    async def _admit(self, socket: WebSocket) -> AgentSocket | Response:
        """The connection, or the refusal of its handshake."""
        if socket.url.path.rstrip("/") != PATH:
            return _refusal(socket.scope)
        # Browsers send an Origin, and let any page open a WebSocket.
        if self._hosts and (refused := self._hosts.refusal(socket.headers)) is not None:
            return refused
        try:
            bearer = self._bearers.check_bearer(bearer_of(socket.scope["headers"]))
            caller = await self._identify(socket, bearer)
            self._methods.registrations.registrars.check(caller)
        except Denied as error:
            return _denied(error)
        except PallasError:
            return problem(503, "The bearer cannot be checked right now. Connect again shortly.", "unavailable")
        if self._stopping:  # last, so that `finish` knows every connection that is accepted
            return problem(503, "The service is shutting down. Connect again.", "stopping")
        if sum(each.caller.owner == caller.owner for each in self._sockets) >= self._most:
            return problem(429, f"You have {self._most} connections. Close one first.", "too_many")
        return AgentSocket(socket, caller, self._methods, partial(self._identify, socket, bearer))

    async def _identify(self, socket: WebSocket, bearer: str | None) -> Principal:
        if bearer is not None:
            return await self._bearers.identify_caller(bearer)
        return Principal(id=socket.client.host if socket.client else "unknown")


def _refusal(scope: Scope) -> Response:
    if scope["path"].rstrip("/") != PATH:
        return problem(404, f"Not found. Agents connect to {PATH}.", "not_found")
    answer = problem(426, f"{PATH} is a WebSocket. Requests are posted to a gateway's {PATH}.", "upgrade_required")
    answer.headers["upgrade"] = "websocket"
    return answer


def _denied(error: Denied) -> Response:
    if error.code == "not_registrar":
        return problem(403, error.message, error.code)
    answer = problem(401, error.message, error.code)
    answer.headers["www-authenticate"] = "Bearer"
    return answer
