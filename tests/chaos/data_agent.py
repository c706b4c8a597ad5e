"""`python -m tests.chaos.data_agent PORT NAME FILE POOL...`: a data agent that records each call in FILE.

It knows `data-agent-pool.md` and nothing of Pallas. When its connection breaks, it registers at the next of the pools,
which are given by their ports. On PORT it answers anything once it has registered.
"""

import asyncio
import json
import sys
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import Any

from tests.chaos.effects import write_down
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

SAFE = "gauge"
"""The agent that may be called again, as it says when it registers."""

_AGAIN, _PING = 0.2, 1.0
_READY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def registration(name: str) -> dict[str, Any]:
    """The request with which an agent registers."""
    shapes = {"input": {"key": "string", "seconds": "float"}, "output": {"text": "string"}}
    params = {"agent_id": name, "tools": ["measure"], "schema": {"measure": shapes}}
    constraints = {"timeout": 60, "idempotent": name == SAFE}
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "server.register",
        "params": {**params, "constraints": constraints},
    }


async def main(port: int, name: str, file: Path, pools: list[str]) -> None:
    """Be this agent until killed."""
    registered = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(_READY)
            await writer.drain()
        writer.close()

    async def ready() -> None:
        await registered.wait()
        await asyncio.start_server(answer, "127.0.0.1", port)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(ready())
        for pool in cycle(pools):
            with suppress(OSError, WebSocketException):
                address = f"ws://127.0.0.1:{pool}/rpc"
                async with connect(address, proxy=None, ping_interval=_PING, ping_timeout=_PING) as socket:
                    await _serve(socket, name, file, registered)
            await asyncio.sleep(_AGAIN)


async def _serve(socket: ClientConnection, name: str, file: Path, registered: asyncio.Event) -> None:
    """Register, and carry out calls until the connection breaks. Calls under way end with it."""
    calls: dict[int, asyncio.Task[None]] = {}
    await socket.send(json.dumps(registration(name)))
    try:
        async for text in socket:
            match json.loads(text):
                case {"method": "agent.execute", "id": number, "params": params}:
                    calls[number] = asyncio.create_task(_execute(socket, file, number, params))
                case {"method": "agent.cancel", "params": {"id": number}} if number in calls:
                    calls[number].cancel()
                case {"id": 1, "result": _}:
                    registered.set()
                case other:
                    print(other, file=sys.stderr, flush=True)
    finally:
        for call in calls.values():
            call.cancel()


async def _execute(socket: ClientConnection, file: Path, number: int, params: dict[str, Any]) -> None:
    given, meta = params["input"], params["meta"]
    write_down(file, given["key"], meta["turn_id"], str(meta["attempt"]))
    await asyncio.sleep(given["seconds"])
    with suppress(WebSocketException):
        result = {"text": f"{given['key']} measured"}
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": number, "result": result}))


if __name__ == "__main__":
    own, name, file, *pools = sys.argv[1:]
    asyncio.run(main(int(own), name, Path(file), pools))
