"""A WebSocket server that plays the pool, and programs that connect to it."""

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.waiting import soon
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

SAMPLE = Path(__file__).with_name("sample.py")

type Message = dict[str, Any]


class Pool:
    """The pool's side of the contract. `refusal` is the error with which registrations are answered."""

    def __init__(self) -> None:
        self.url = ""
        self.refusal: Message | None = None
        self.bearers: list[str | None] = []
        self.closed: list[int | None] = []
        self.registered: asyncio.Queue[Message] = asyncio.Queue()
        self.beats: asyncio.Queue[Message] = asyncio.Queue()
        self._numbers = itertools.count(1)
        self._calls: dict[int, asyncio.Future[Message]] = {}
        self._socket: ServerConnection | None = None

    async def serve(self, socket: ServerConnection) -> None:
        """Answer the messages of one connection until it ends."""
        self._socket = socket
        try:
            while True:
                await self._take(socket, json.loads(await socket.recv()))
        except ConnectionClosed:
            self.closed.append(socket.close_code)

    async def _take(self, socket: ServerConnection, message: Message) -> None:
        match message:
            case {"method": "server.register"}:
                body = {"error": self.refusal} if self.refusal else {"result": {"registered": True}}
                await socket.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}))
                self.registered.put_nowait(message["params"])
            case {"method": "agent.heartbeat"}:
                await socket.send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}))
                self.beats.put_nowait(message["params"])
            case _:
                self._calls.pop(message["id"]).set_result(message)

    async def send(self, agent: str, function: str, given: Any, **meta: Any) -> tuple[int, asyncio.Future[Message]]:
        """Send a call; returns its id and its answer."""
        assert self._socket is not None
        number = next(self._numbers)
        params = {"agent_id": agent, "function": function, "input": given, "meta": {"task_id": "t", **meta}}
        self._calls[number] = asyncio.get_running_loop().create_future()
        await self._write({"id": number, "method": "agent.execute", "params": params})
        return number, self._calls[number]

    async def call(self, function: str, given: Any, *, agent: str = "sample", **meta: Any) -> Message:
        """The answer to a call."""
        _, answer = await self.send(agent, function, given, **meta)
        return await soon(answer)

    async def tell(self, message: Message) -> None:
        """Send something else."""
        await self._write(message)

    async def cancel(self, number: int) -> None:
        """Cancel a call."""
        await self._write({"method": "agent.cancel", "params": {"id": number}})

    async def drop(self) -> None:
        """Break the connection."""
        assert self._socket is not None
        self._socket.transport.abort()

    async def both_registered(self) -> list[Message]:
        """The registrations of the sample's two agents."""
        return [await soon(self.registered.get()) for _ in range(2)]

    async def _write(self, message: Message) -> None:
        assert self._socket is not None
        await self._socket.send(json.dumps({"jsonrpc": "2.0", **message}))

    def admit(self, socket: ServerConnection, request: Request) -> Response | None:
        """Note the bearer; a wrong path is refused."""
        self.bearers.append(request.headers.get("Authorization"))
        return None if request.path == "/rpc" else socket.respond(404, "no pool is here\n")


@asynccontextmanager
async def a_pool() -> AsyncGenerator[Pool]:
    """A pool at a free port of loopback."""
    pool = Pool()
    async with serve(pool.serve, "127.0.0.1", 0, process_request=pool.admit, max_size=20 * 2**20) as server:
        [listener] = server.sockets
        pool.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        yield pool


@asynccontextmanager
async def a_program(*command: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A Python program whose output can be read; it is killed at the end."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=pipe, stderr=pipe)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
