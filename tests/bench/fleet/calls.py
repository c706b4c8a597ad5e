"""Seconds of calls: those that both servers have, starts and stops, and until statuses are seen."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from tests.bench.fleet.world import PALLAS, PEER, World

from fleet.terminal.agent_api import Said, Terminal

_COLD_SECONDS = 2.2
"""Seconds after which the service has forgotten what Coder and terminals said."""


async def listing(world: World) -> dict[str, Any]:
    """Seconds of `list_agents`, ours and the peer's in turns."""
    warm, cold, theirs = list[float](), list[float](), list[float]()
    for _ in range(max(3, world.extent.calls // 20)):
        theirs.append(await world.timed("list_agents", world.peer))
        await asyncio.sleep(_COLD_SECONDS)
        cold.append(await world.timed("list_agents"))
        warm += [await world.timed("list_agents") for _ in range(20)]
    return {"warm": warm, "cold": cold, "peer": theirs}


async def tools(world: World) -> dict[str, Any]:
    """Seconds of other tools that both have."""
    found: dict[str, Any] = {}
    asked: tuple[tuple[str, dict[str, str]], ...] = (
        ("show_agent", {"agent_name": "agent-1"}),
        ("list_agent_projects", {}),
        ("show_agent_task_history", {"agent_name": "agent-1"}),
    )
    for tool, given in asked:
        found[tool] = {
            PALLAS: [await world.timed(tool, **given) for _ in range(world.extent.times)],
            PEER: [await world.timed(tool, world.peer, **given) for _ in range(world.extent.times)],
        }
    return found


async def tasks(world: World) -> dict[str, list[float]]:
    """Seconds of starts and stops, and until others see them."""
    found: dict[str, list[float]] = {
        name: [] for name in ("said", "start", "escape", "stop", "seen_busy", "seen_idle", "typed_seen")
    }
    name = "agent-2"
    terminal = await world.terminal(name)

    async def stable() -> bool:
        return await terminal.status() == "stable"

    async def shows(status: str) -> bool:
        return (await world.statuses())[name] == status

    for _ in range(world.extent.times):
        await world.all_idle()
        began = time.perf_counter()
        await terminal.say("work 60 s")  # AgentAPI alone, as a person types it
        said = time.perf_counter()
        found["said"].append(said - began)
        await world.until(lambda: shows("busy"))
        found["typed_seen"].append(time.perf_counter() - said)
        await terminal.press("\x1b")
        await world.until(stable)
        await world.all_idle()
        found["start"].append(await world.timed("start_agent_task", agent_name=name, task_description="work 60 s"))
        found["seen_busy"].append(await world.until(lambda: shows("busy")))
        async with _heard(terminal, "Interrupted") as heard:
            began = time.perf_counter()
            stopping = asyncio.create_task(world.timed("stop_agent_task", agent_name=name))
            found["escape"].append(await heard - began)
            found["stop"].append(await stopping)
        found["seen_idle"].append(await world.until(lambda: shows("idle")))
    return found


@asynccontextmanager
async def _heard(terminal: Terminal, text: str) -> AsyncGenerator[asyncio.Future[float]]:
    """The moment at which an agent writes a text that it has not written in its last message."""
    moment, listening = asyncio.get_running_loop().create_future(), asyncio.Event()

    async def listen() -> None:
        events = terminal.events(gather=0.0)
        async for event in events:
            if isinstance(event, Said):
                listening.set()
                if event.id > last and text in event.text and not moment.done():
                    moment.set_result(time.perf_counter())

    last = max(said.id for said in await terminal.messages() if said.role == "user")
    task = asyncio.create_task(listen())
    try:
        await listening.wait()
        yield moment
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
