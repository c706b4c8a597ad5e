"""What only ours has: long histories, many tasks at once, and tasks that go on when their process is killed."""

import asyncio
import os
import signal
import time
from typing import Any

from tests.bench.fleet.world import World
from tests.bench.processes import Process

from fleet.running.typing import task_ref
from fleet.storing.tasks import Tasks
from fleet.terminal.agent_api import Terminal
from pallas_bus.kv import get_entry, put
from pallas_contracts.catalog import FLEET_AGENTS
from pallas_contracts.fleet import FleetTask
from pallas_contracts.ids import child_id
from pallas_turns.liveness import last_claims

_STARTED_AT_ONCE = 8
_LONG = "work 900 s"
_HISTORY = "agent-0"


async def pages(world: World, length: int) -> dict[str, Any]:
    """Seconds of the first, the last and a page in the middle of a history whose rows were written directly."""
    entry, position = await get_entry(world.bus, FLEET_AGENTS, agent=_HISTORY)
    assert entry is not None
    tasks = Tasks(world.bus)
    for first in range(entry.tasks + 1, length + 1, 500):
        rows = (
            FleetTask(
                turn_id=child_id(entry.workspace_id, str(number)),
                number=number,
                agent=entry.name,
                summary=f"task {number}",
                status="completed",
                source="human",
                created_at=entry.created_at,
                started_at=entry.created_at,
                completed_at=entry.created_at,
            )
            for number in range(first, min(first + 500, length + 1))
        )
        await asyncio.gather(*(tasks.ended(entry, row) for row in rows))
    await put(world.bus, FLEET_AGENTS, entry.model_copy(update={"tasks": length}), after=position, agent=_HISTORY)
    found: dict[str, Any] = {}
    for size in (20, 100):
        pages = (1, max(1, length // size // 2), length // size)
        seconds = list[float]()
        for number in range(world.extent.times * 3):
            page = pages[number % 3]
            began = time.perf_counter()
            answer = await world.call("show_agent_task_history", agent_name=_HISTORY, page=page, page_size=size)
            seconds.append(time.perf_counter() - began)
            assert len(answer["tasks"]) == size, answer
            assert answer["total_count"] == length
        found[str(size)] = seconds
    return found


async def _start(world: World, count: int) -> list[str]:
    """Start a long task on each of so many agents; returns their turns."""
    room = asyncio.Semaphore(_STARTED_AT_ONCE)

    async def start(name: str) -> str:
        async with room:
            answer = await world.call("start_agent_task", agent_name=name, task_description=_LONG)
        return answer["task"]["id"].replace("-", "")

    return await asyncio.gather(*(start(f"agent-{number}") for number in range(count)))


async def _stop(world: World, count: int) -> None:
    room = asyncio.Semaphore(_STARTED_AT_ONCE)

    async def stop(name: str) -> None:
        async with room:
            await world.call("stop_agent_task", agent_name=name)

    await asyncio.gather(*(stop(f"agent-{number}") for number in range(count)))
    await world.all_idle()


async def at_once(world: World, fleets: list[Process]) -> dict[str, Any]:
    """Memory and CPU of the replicas while many tasks run."""
    count = world.extent.at_once
    await world.grow(count)
    empty, idle = [each.rss_bytes() for each in fleets], await _share(fleets, world.extent.watched_seconds / 3)
    await _start(world, count)
    share = await _share(fleets, world.extent.watched_seconds)
    used = [each.rss_bytes() for each in fleets]
    await _stop(world, count)
    return {
        "tasks": count,
        "replicas": len(fleets),
        "rss_mib": max(used) / 2**20,
        "idle_mib": max(empty) / 2**20,
        "core_share": share,
        "idle_core_share": idle,
    }


async def _share(processes: list[Process], seconds: float) -> float:
    """Of a core, what processes use together."""
    before = sum(each.cpu_seconds() for each in processes)
    await asyncio.sleep(seconds)
    return (sum(each.cpu_seconds() for each in processes) - before) / seconds


async def killed(world: World, fleets: list[Process]) -> dict[str, Any]:
    """Seconds until other replicas have all tasks of one that was killed, and prompts that were typed again."""
    count = world.extent.killed
    names = [f"agent-{number}" for number in range(count)]
    terminals = [await world.terminal(name) for name in names]
    before = [await _prompts(each) for each in terminals]
    turns = await _start(world, count)
    refs = [task_ref(turn) for turn in turns]
    claims = await last_claims(world.log, refs)
    had = {turn: claim.worker for turn, claim in claims.items()}
    [lost, *_] = sorted(set(had.values()), key=lambda worker: -list(had.values()).count(worker))
    victim = next(each for each in fleets if lost in each.output())
    began = time.perf_counter()
    os.kill(victim.pid, signal.SIGKILL)

    async def taken() -> bool:
        now = await last_claims(world.log, refs)
        return len(now) == count and all(claim.worker != lost for claim in now.values())

    await world.until(taken, every=0.05)
    seconds = time.perf_counter() - began
    await asyncio.sleep(3)
    typed = [await _prompts(each) - was for each, was in zip(terminals, before, strict=True)]
    await _stop(world, count)
    return {
        "tasks": count,
        "lost": sum(worker == lost for worker in had.values()),
        "seconds": seconds,
        "typed_again": sum(number != 1 for number in typed),
    }


async def _prompts(terminal: Terminal) -> int:
    return sum(said.role == "user" for said in await terminal.messages())
