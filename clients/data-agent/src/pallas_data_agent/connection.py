"""The connection to the pool: one WebSocket on which agents register, send heartbeats and are called.

Messages are JSON-RPC 2.0 in both directions.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from websockets.asyncio.client import ClientConnection

from pallas_data_agent.calls import AGENT_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, NOT_ALLOWED, UNREACHABLE, failure
from pallas_data_agent.children import Children

if TYPE_CHECKING:
    from pallas_data_agent.agent import DataAgent

log = logging.getLogger("pallas_data_agent")

MOST_BYTES = 16 * 2**20
"""The longest message."""

_ANSWER_WITHIN = 30.0


class Refused(Exception):
    """The pool refuses the bearer or a registration. Trying again would not help."""


class Connection:
    """One connection, until it breaks."""

    def __init__(
        self, socket: ClientConnection, agents: Mapping[str, "DataAgent"], children: Mapping[str, Children]
    ) -> None:
        self._socket = socket
        self._agents = agents
        self._children = children
        self._calls: dict[int | str, asyncio.Task[None]] = {}
        self._asked: dict[int | str, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = count(1)
        self._stopping = False

    async def serve(self) -> None:
        """Register and answer calls. When cancelled, it first finishes those that run.

        Raises:
            Refused: the pool refuses a registration.
            OSError, WebSocketException: the connection broke.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._receive(tasks))
                for agent in self._agents.values():
                    await self._register(agent)
                    if agent.heartbeat:
                        tasks.create_task(self._beat(agent.agent_id, agent.heartbeat))
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    await self._finish()
                    raise
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        except asyncio.CancelledError:
            await self._socket.close()
            raise

    async def _register(self, agent: "DataAgent") -> None:
        answer = await self._ask("server.register", agent.registration)
        if error := answer.get("error"):
            if error["code"] in (INVALID_PARAMS, NOT_ALLOWED):
                raise Refused(f"the pool refuses {agent.agent_id}: {error['message']} ({error['code']})")
            raise ConnectionError(f"{agent.agent_id} could not be registered: {error['message']}")
        for warning in answer["result"].get("warnings", ()):
            log.warning("%s: %s", agent.agent_id, warning)
        log.info("%s is registered, functions: %d", agent.agent_id, len(agent.tools))

    async def _beat(self, agent_id: str, interval: float) -> None:
        while True:
            await asyncio.sleep(interval)
            answer = await self._ask("agent.heartbeat", {"agent_id": agent_id, "status": "active"})
            if error := answer.get("error"):
                raise ConnectionError(f"the pool refuses a heartbeat of {agent_id}: {error['message']}")

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            await self._socket.send(json.dumps(request))
            async with asyncio.timeout(_ANSWER_WITHIN):
                return await self._asked[number]
        finally:
            del self._asked[number]

    async def _receive(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            data = await self._socket.recv(decode=False)
            try:
                message = json.loads(data)
            except ValueError as error:
                raise ConnectionError("the pool sent what is no JSON") from error
            match message:
                case {"method": "agent.execute", "id": number, "params": {"agent_id": _}} as request:
                    self._calls[number] = tasks.create_task(self._answer(request, data))
                case {"method": "agent.cancel", "params": {"id": number}}:
                    if number in self._calls:
                        self._calls[number].cancel()
                case {"id": number} as answer if number in self._asked:
                    self._asked[number].set_result(answer)
                case _:
                    log.warning("a message of the pool was not understood")

    async def _answer(self, request: dict[str, Any], data: bytes) -> None:
        try:
            await self._socket.send(await self._answer_of(request, data), text=True)
        finally:
            del self._calls[request["id"]]

    async def _answer_of(self, request: dict[str, Any], data: bytes) -> bytes:
        agent_id, function = (request["params"].get(name) for name in ("agent_id", "function"))
        if self._stopping:
            return failure(request, UNREACHABLE, f"{agent_id} is stopping")
        if agent_id not in self._agents:
            return failure(request, METHOD_NOT_FOUND, f"Method not found: {agent_id}")
        agent = self._agents[agent_id]
        try:
            answer = await self._children[agent_id].execute(data, agent.timeout)
        except TimeoutError:
            return failure(request, UNREACHABLE, f"{function} timed out after {agent.timeout:g} s")
        except MemoryError:
            return failure(request, AGENT_ERROR, f"memory limit {agent.memory_limit}")
        except (EOFError, OSError):
            log.exception("the process of %s ended", function)
            return failure(request, AGENT_ERROR, f"{function} failed")
        if len(answer) > MOST_BYTES:
            return failure(request, AGENT_ERROR, f"the answer of {function} exceeds {MOST_BYTES >> 20} MiB")
        return answer

    async def _finish(self) -> None:
        self._stopping = True
        if self._calls:
            await asyncio.wait(list(self._calls.values()))
