"""What is measured: both servers, Coder, the broker, and how much."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp import Client

from fleet.coder.client import Coder
from fleet.terminal.agent_api import Terminal
from pallas_bus.connection import Bus

PALLAS, PEER = "pallas", "setup-fleet-mcp"
_CREATED_AT_ONCE = 8
_WITHIN = 120.0
_RETRY = 0.005

type Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: agents of each size, calls, starts and stops, the longest history, tasks at once."""

    sizes: tuple[int, ...]
    calls: int
    times: int
    histories: tuple[int, ...]
    killed: int
    at_once: int
    watched_seconds: float


WHOLE = Extent((50, 100), 100, 20, (1000, 100_000), 50, 200, 30.0)
QUICK = Extent((5, 10), 20, 3, (100, 1000), 5, 10, 3.0)


@dataclass(frozen=True)
class World:
    """`bus` is the fleet's connection. `log` reads the log directly: the fleet's own reads cost the broker far more."""

    ours: Client
    peer: Client
    coder: Coder
    bus: Bus
    log: Bus
    extent: Extent
    report: Report

    async def call(self, tool: str, client: Client | None = None, /, **arguments: Any) -> dict[str, Any]:
        """The answer of a tool.

        Raises:
            RuntimeError: it is an error.
        """
        answer = await (client or self.ours).call_tool(tool, arguments)
        text: str = getattr(answer.content[0], "text", "") if answer.content else ""
        if answer.is_error:
            raise RuntimeError(f"{tool}: {text}")
        return json.loads(text)

    async def timed(self, tool: str, client: Client | None = None, /, **arguments: Any) -> float:
        """The seconds of a call."""
        began = time.perf_counter()
        await self.call(tool, client, **arguments)
        return time.perf_counter() - began

    async def terminal(self, name: str) -> Terminal:
        """The terminal of an agent, reached as the service reaches it."""
        workspace = next(it for it in await self.coder.workspaces() if it.name == name)
        found = self.coder.terminal(workspace)
        assert found is not None
        return found

    async def statuses(self) -> dict[str, str]:
        """The status of each agent."""
        return {it["name"]: it["status"] for it in (await self.call("list_agents"))["agents"]}

    async def until(self, found: Callable[[], Awaitable[bool]], every: float = _RETRY) -> float:
        """Look every so many seconds until something is found; the seconds that it took."""
        began = time.perf_counter()
        async with asyncio.timeout(_WITHIN):
            while True:
                if await found():
                    return time.perf_counter() - began
                await asyncio.sleep(every)

    async def all_idle(self) -> None:
        """Wait until no agent works."""

        async def idle() -> bool:
            return set((await self.statuses()).values()) <= {"idle"}

        await self.until(idle)

    async def grow(self, size: int) -> None:
        """Make agents until there are `size`."""
        names = [f"agent-{number}" for number in range(len(await self.statuses()), size)]
        room = asyncio.Semaphore(_CREATED_AT_ONCE)

        async def create(name: str) -> None:
            async with room:
                await self.call("create_agent", name=name, project="Setup", spec="say ready")

        await asyncio.gather(*map(create, names))
        await self.all_idle()
