"""Data agents over WebSockets, one connection each: `python -m tests.bench.peers.ws_agents POOL_PORT COUNT PORT`.

They echo what they are called with. `GET /ready` on PORT answers when all are registered, and `GET /beat/N` when each
of them has sent N heartbeats and got their answers.
"""

import asyncio
import json
import sys
from dataclasses import dataclass
from typing import Any

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from websockets.asyncio.client import ClientConnection, connect

ECHO = {"input": {"message": "string"}, "output": {"echo": "string"}}
_AT_ONCE = 50


@dataclass
class Agent:
    """One agent on its connection. `answered` counts the answers to its own requests."""

    agent_id: str
    socket: ClientConnection
    answered: asyncio.Semaphore

    async def serve(self) -> None:
        """Answer calls, until the connection ends."""
        async for text in self.socket:
            message = json.loads(text)
            if "method" in message:
                await self.socket.send(_answer(message))
            else:
                self.answered.release()

    async def ask(self, method: str, **params: Any) -> None:
        """Send a request and wait for its answer."""
        request = {"jsonrpc": "2.0", "id": method, "method": method, "params": {"agent_id": self.agent_id, **params}}
        await self.socket.send(json.dumps(request))
        await self.answered.acquire()

    async def beat(self, times: int) -> None:
        """Send heartbeats, one after the other."""
        for _ in range(times):
            await self.ask("agent.heartbeat", status="active")


def _answer(call: dict[str, Any]) -> str:
    result = {"echo": call["params"]["input"]["message"]}
    return json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result})


async def serve(pool: int, count: int, port: int) -> None:
    """Register all agents and serve until the process is ended."""
    agents: list[Agent] = []
    gate = asyncio.Semaphore(_AT_ONCE)
    serving: set[asyncio.Task[None]] = set()

    async def start(number: int) -> None:
        async with gate:
            socket = await connect(f"ws://127.0.0.1:{pool}/rpc", compression=None)
            agent = Agent(f"echo-{number}", socket, asyncio.Semaphore(0))
            serving.add(asyncio.create_task(agent.serve()))
            await agent.ask("server.register", tools=["echo"], schema={"echo": ECHO}, heartbeat_interval=60)
            agents.append(agent)

    async def ready(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("", 200 if len(agents) == count else 503)

    async def beat(request: Request) -> PlainTextResponse:
        await asyncio.gather(*(agent.beat(int(request.path_params["times"])) for agent in agents))
        return PlainTextResponse("done")

    app = Starlette(routes=[Route("/ready", ready), Route("/beat/{times:int}", beat)])
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(uvicorn.Server(config).serve())
        for number in range(count):
            tasks.create_task(start(number))


if __name__ == "__main__":
    uvloop.run(serve(*map(int, sys.argv[1:])))
