"""The connection to the pool: a WebSocket on which agents register, send heartbeats and are called by JSON-RPC 2.0."""

import asyncio
import json
import logging
import random
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, InvalidURI, WebSocketException

from pallas_data_agent.tools import INVALID_PARAMS, METHOD_NOT_FOUND, NOT_ALLOWED, UNREACHABLE, failure
from pallas_data_agent.workers import MOST_BYTES, Workers

log = logging.getLogger("pallas_data_agent")

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.25, 30.0
_WORTH_ANOTHER_TRY = (408, 429)
"""The client errors of HTTP that may pass."""

_jitter = random.SystemRandom()


class Refused(Exception):
    """The pool refuses the bearer or a registration. Trying again would not help."""


def stay_connected(hosted: Mapping[str, Workers], url: str, token: str | None) -> None:
    """Answer calls until SIGTERM or SIGINT, by agent.

    Raises:
        Refused: there is no pool at `url`, or it refuses the bearer or an agent.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the shell may have made a background process ignore it
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        asyncio.run(_connect_again_and_again(hosted, _socket_url(url), token))
    except KeyboardInterrupt:
        log.info("stopped")


def _interrupt(_number: int, _frame: object) -> None:
    signal.raise_signal(signal.SIGINT)  # asyncio.run cancels its task then


async def _connect_again_and_again(hosted: Mapping[str, Workers], url: str, token: str | None) -> None:
    threads = ThreadPoolExecutor(1 + sum(each.agent.max_concurrency for each in hosted.values()))
    asyncio.get_running_loop().set_default_executor(threads)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    pause = _SHORTEST_PAUSE
    while True:
        since = monotonic()
        try:
            async with connect(url, additional_headers=headers, max_size=MOST_BYTES) as socket:
                await Connection(socket, hosted).serve()
        except (OSError, ValueError, WebSocketException) as error:
            if _is_final(error):
                raise Refused(f"{url}: {error}") from error
            log.warning("no connection to %s (%s); trying again", url, error)
        if monotonic() - since > _LONGEST_PAUSE:
            pause = _SHORTEST_PAUSE
        await asyncio.sleep(_jitter.uniform(pause / 2, pause))
        pause = min(2 * pause, _LONGEST_PAUSE)


def _is_final(error: Exception) -> bool:
    status = error.response.status_code if isinstance(error, InvalidStatus) else 0
    return isinstance(error, InvalidURI) or (400 <= status < 500 and status not in _WORTH_ANOTHER_TRY)


def _socket_url(url: str) -> str:
    """The address of the pool's WebSocket; `url` may begin with http and have no path."""
    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    return parts._replace(scheme=scheme, path=parts.path.rstrip("/") or "/rpc").geturl()


class Connection:
    """One connection, until it breaks."""

    def __init__(self, socket: ClientConnection, hosted: Mapping[str, Workers]) -> None:
        self._socket, self._hosted, self._stopping = socket, hosted, False
        self._calls: dict[int | str, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Register and answer calls. When cancelled, it first finishes those that run.

        Raises:
            Refused: the pool refuses a registration.
            OSError, ValueError, WebSocketException: the connection broke, or what came is no JSON.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._receive(tasks))
                for agent_id in self._hosted:
                    tasks.create_task(self._register(agent_id))
                try:
                    await asyncio.Event().wait()
                finally:
                    self._stopping = True
                    if self._calls:
                        await asyncio.wait(list(self._calls.values()))
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        except asyncio.CancelledError:
            await self._socket.close()
            raise

    async def _register(self, agent_id: str) -> None:
        agent = self._hosted[agent_id].agent
        await self._ask("server.register", agent_id, agent.registration)
        while agent.heartbeat:
            await asyncio.sleep(agent.heartbeat)
            await self._ask("agent.heartbeat", agent_id, {"agent_id": agent_id, "status": "active"})

    async def _ask(self, method: str, agent_id: str, params: dict[str, Any]) -> None:
        request = {"jsonrpc": "2.0", "id": f"{method} {agent_id}", "method": method, "params": params}
        await self._socket.send(json.dumps(request))

    async def _receive(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            data = await self._socket.recv(decode=False)
            match json.loads(data):
                case {"method": "agent.execute", "id": number, "params": {"agent_id": _}} as request:
                    self._calls[number] = tasks.create_task(self._answer(request, data))
                case {"method": "agent.cancel", "params": {"id": number}}:
                    if number in self._calls:
                        self._calls[number].cancel()
                case {"id": None, "error": {"message": message}}:  # a message from here cannot be read
                    log.error("the pool cannot read a message: %s", message)
                case {"id": asked, "error": {"code": code, "message": message}}:
                    final = code in (INVALID_PARAMS, NOT_ALLOWED) and str(asked).startswith("server.register")
                    raise (Refused if final else ConnectionError)(f"the pool refuses {asked}: {message} ({code})")
                case {"id": asked, "result": _} as answer:
                    if str(asked).startswith("server.register"):
                        log.info("the pool has accepted %s", asked)
                    for warning in answer["result"].get("warnings", ()):
                        log.warning("%s: %s", asked, warning)
                case _:
                    log.warning("a message of the pool was not understood")

    async def _answer(self, request: dict[str, Any], data: bytes) -> None:
        agent_id = request["params"]["agent_id"]
        try:
            if self._stopping:
                answer = failure(request, UNREACHABLE, f"{agent_id} is stopping")
            elif agent_id not in self._hosted:
                answer = failure(request, METHOD_NOT_FOUND, f"Method not found: {agent_id}")
            else:
                answer = await self._hosted[agent_id].execute(request, data)
            await self._socket.send(answer, text=True)
        finally:
            del self._calls[request["id"]]
