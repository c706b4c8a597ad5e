"""One WebSocket of a program that registers agents. Requests are handled in their order; answers are taken at once."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from starlette.websockets import WebSocket, WebSocketDisconnect

from data_pool.methods import AgentMethods
from data_pool.reaching.link import NotSent
from data_pool.reaching.socket_calls import SocketCalls, SocketLink, id_in
from pallas_contracts.bounds import Json
from pallas_contracts.errors import Denied, PallasError
from pallas_contracts.turns import Principal
from pallas_jsonrpc.messages import INVALID_REQUEST, Request, Response, Unreadable, read_message, refused
from pallas_jsonrpc.serving import Answer, encode, read_requests, serve, unread
from pallas_jsonrpc.strict_json import read_apart

log = logging.getLogger(__name__)

POLICY, FAILED, RESTARTING = 1008, 1011, 1012
"""Codes with which a WebSocket is closed (RFC 6455, section 7.4.1, and its registry)."""

REGISTER_SECONDS = 30.0
CHECK_SECONDS = 60.0
MOST_AGENTS = 200
_MOST_REQUESTS = 50
"""Requests that may wait; the peer's next messages are not read meanwhile."""
LARGEST_WAITING = 4 * 1024 * 1024
"""Characters of requests that may wait. Each takes many times as much while it does."""
_CLOSE_SECONDS = 2.0


@dataclass(eq=False)
class AgentSocket:
    """Made for each WebSocket. `check_caller` raises `Denied` when the caller's bearer is not accepted any more."""

    socket: WebSocket
    caller: Principal
    methods: AgentMethods
    check_caller: Callable[[], Awaitable[Principal]]
    _requests: asyncio.Queue[tuple[Json, int]] = field(default_factory=lambda: asyncio.Queue(_MOST_REQUESTS))
    _waiting: int = 0
    _tasks: list[asyncio.Task[None]] = field(default_factory=list["asyncio.Task[None]"])

    def __post_init__(self) -> None:
        self._end = asyncio.get_running_loop().create_future()
        self.calls = SocketCalls(self._write, self._cut, self.methods.metrics.stray_answers)

    async def serve(self) -> None:
        """Serve the connection until it is closed by either side."""
        parts = (self._read(), self._handle_requests(), self._watch())
        self._tasks = [asyncio.create_task(self._until_it_ends(part)) for part in parts]
        try:
            code, reason = await self._end
        finally:
            for task in self._tasks:
                task.cancel()
            for agent in list(self.calls.agents):
                self.methods.hosting.disconnect(agent, self.calls)
            self.calls.close()
        with suppress(TimeoutError, RuntimeError, WebSocketDisconnect):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.socket.close(code, reason)

    def close(self, code: int, reason: str) -> None:
        """Close the connection. Calls under way fail."""
        if not self._end.done():
            self._end.set_result((code, reason))

    async def _write(self, text: str) -> None:
        try:
            await self.socket.send_text(text)
        except (WebSocketDisconnect, RuntimeError) as error:  # the latter after a close of our own
            raise NotSent("the connection is closed") from error

    def _cut(self) -> None:
        self.close(FAILED, "an answer is missing, or messages are not read")

    async def finish(self) -> None:
        """Close the connection as soon as no call is under way; the program connects elsewhere."""
        await self.calls.until_idle()
        self.close(RESTARTING, "this replica is shutting down: connect again")

    async def _until_it_ends(self, part: Awaitable[None]) -> None:
        try:
            await part
        except NotSent:
            self._cut()
        except Exception:
            log.exception("a connection of agents failed")
            self.close(FAILED, "internal error")
        else:
            self.close(1000, "")

    async def _watch(self) -> None:
        """Close a connection on which no agent registers, or whose bearer is not accepted any more."""
        await asyncio.sleep(REGISTER_SECONDS)
        if not self.calls.agents:
            self.close(POLICY, "no agent has registered")
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self.check_caller()
            except Denied:
                self.close(POLICY, "the bearer is not accepted any more")
            except PallasError as error:
                log.debug("a bearer cannot be checked now", extra={"reason": error.message})

    async def _read(self) -> None:
        while True:
            message = await self.socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            data: str = message.get("text") or message.get("bytes", b"").decode("utf-8", "replace")
            try:
                value = await read_apart(read_requests, data)
            except Unreadable as error:
                if not self.calls.malformed(await asyncio.to_thread(id_in, data), error.reason):
                    await self.calls.send(encode(unread(error)))
                continue
            each = value if isinstance(value, list) else [value]
            requests = [one for one in each if not self._take_answer(one)]
            if requests and self._waiting + len(data) > LARGEST_WAITING:
                await self.calls.send(encode(unread(_too_large(requests))))
            elif requests:
                self._waiting += len(data)
                await self._requests.put((requests if isinstance(value, list) else requests[0], len(data)))

    def _take_answer(self, value: Json) -> bool:
        """Take the answer of a call; False if it is none."""
        if not isinstance(value, dict) or "method" in value:
            return False
        if "result" not in value and "error" not in value:
            return self.calls.empty(value.get("id"))
        try:
            read = read_message(value)
        except Unreadable as error:
            self.calls.malformed(error.id, error.reason)
        else:
            assert isinstance(read, Response)
            self.calls.answered(read)
        return True

    async def _handle_requests(self) -> None:
        while True:
            value, size = await self._requests.get()
            answer = await serve(value, self._handle)
            self._waiting -= size
            if answer is not None:
                await self.calls.send(answer)

    async def _handle(self, request: Request) -> Answer:
        link, params = SocketLink(self.calls, request.strict, request.numbered), request.named
        try:
            agents = self.calls.agents | {str(params.get("agent_id"))}
            if request.method == "server.register" and len(agents) > MOST_AGENTS:
                raise Denied(f"A connection has at most {MOST_AGENTS} agents.", code="too_many_agents")
            return Answer(await self.methods.call(self.caller, request.method, params, link))
        except PallasError as error:
            raise refused(error, params) from error


def _too_large(requests: list[Json]) -> Unreadable:
    number = requests[0].get("id") if len(requests) == 1 and isinstance(requests[0], dict) else None
    reason = f"requests of more than {LARGEST_WAITING // 1024 // 1024} MiB would wait: send this one later"
    return Unreadable(INVALID_REQUEST, reason, number if isinstance(number, int | str) else None)
