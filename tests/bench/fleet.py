"""The fleet beside `setup-fleet-mcp`, the server for the same tools, on the same stand-in for Coder.

Both are called by the official client over HTTP. The agents are programs in terminals. What only ours can do is measured
beside it: tasks that survive their process, histories, statuses that others change.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from mcp import Client
from pydantic import SecretStr
from tests.bench import stack
from tests.bench.figures import percentile
from tests.bench.processes import Process, running
from tests.bench.tables import table

from fleet.coder.client import Coder
from fleet.reaching.http import Http
from fleet.running.requests import task_ref
from fleet.storing.tasks import Tasks
from fleet.terminal.agent_api import Said, Terminal
from pallas_bus.transport.connection import Bus, connect
from pallas_bus.transport.kv import get_entry, put
from pallas_calls.last_claims import last_claims
from pallas_contracts.catalog import FLEET, FLEET_AGENTS
from pallas_contracts.fleet import FleetTask
from pallas_contracts.ids import child_id

PYTHON = Path(__file__).parents[2] / ".tools" / "setup-fleet-mcp" / "bin" / "python"
PALLAS, PEER = "pallas", "setup-fleet-mcp"
_VERSION = "import importlib.metadata as it; print(it.version('setup-fleet-mcp'))"
_TOKEN = "bench-token"
_CREATED_AT_ONCE = 8
_COLD_SECONDS = 2.2
"""Seconds after which the service has forgotten what Coder and terminals said."""

_WITHIN = 120.0
_LONG = "work 900 s"
_HISTORY = "agent-0"

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


def measure(folder: Path, extent: Extent, report: Report) -> dict[str, Any]:
    """All figures, and the version of the peer.

    Raises:
        FileNotFoundError: the peer is not installed; `make bench` does that.
    """
    version = subprocess.run([PYTHON, "-c", _VERSION], capture_output=True, text=True, check=True).stdout.strip()
    folder = folder / "fleet"
    folder.mkdir()
    report(f"starting Coder's stand-in, the fleet and {PEER} {version}")
    with ExitStack() as parts:
        nats_url, _ = parts.enter_context(stack.broker())
        gateway = parts.enter_context(stack.gateway(folder, nats_url))
        env = {"PALLAS_CODER_TOKEN": _TOKEN}
        options = ("--port", "{port}", "--build-seconds", "0.05", "--no-sandbox", "--folder", str(folder / "agents"))
        coder = parts.enter_context(running("coder", folder, "pallas_demo.coder", *options, env=env)).wait_for("")
        url = f"http://127.0.0.1:{coder.port}"
        fleets = [parts.enter_context(_fleet(folder, nats_url, url, number)) for number in (1, 2)]
        peer = parts.enter_context(_peer(folder, url))
        figures = asyncio.run(_measured(gateway, peer, fleets, url, nats_url, extent, report))
    return {"version": version, **figures}


@contextmanager
def _fleet(folder: Path, nats_url: str, coder_url: str, number: int) -> Generator[Process]:
    env = {
        "PALLAS_NATS_URL": nats_url,
        "PALLAS_PORT": "{port}",
        "PALLAS_DRAIN_SECONDS": "1",
        "PALLAS_CODER_URL": coder_url,
        "PALLAS_CODER_TOKEN": _TOKEN,
        "PALLAS_FLEET_MAX_AGENTS": "1000",
        "PALLAS_FLEET_TASKS": "400",
    }
    with running(f"fleet-{number}", folder, "fleet", env=env) as process:
        yield process.wait_for("readyz")


@contextmanager
def _peer(folder: Path, coder_url: str) -> Generator[Process]:
    env = {"CODER_URL": coder_url, "CODER_SESSION_TOKEN": _TOKEN, "PYTHONPATH": ""}
    arguments = ("fleet_mcp.__main__:app", "--host", "127.0.0.1", "--port", "{port}", "--log-level", "warning")
    with running(PEER, folder, "uvicorn", *arguments, env=env, python=PYTHON) as process:
        yield process.wait_for("")


@dataclass(frozen=True)
class _World:
    ours: Client
    peer: Client
    coder: Coder
    bus: Bus
    extent: Extent
    report: Report

    async def call(self, tool: str, client: Client | None = None, **arguments: Any) -> dict[str, Any]:
        """The answer of a tool.

        Raises:
            RuntimeError: it is an error.
        """
        answer = await (client or self.ours).call_tool(tool, arguments)
        text: str = getattr(answer.content[0], "text", "") if answer.content else ""
        if answer.is_error:
            raise RuntimeError(f"{tool}: {text}")
        return json.loads(text)

    async def timed(self, tool: str, client: Client | None = None, **arguments: Any) -> float:
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

    async def until(self, found: Callable[[], Awaitable[bool]]) -> float:
        """Wait until something is found; the seconds that it took."""
        began = time.perf_counter()
        async with asyncio.timeout(_WITHIN):
            while not await found():
                await asyncio.sleep(0.005)
        return time.perf_counter() - began

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


async def _measured(
    gateway: Process, peer: Process, fleets: list[Process], url: str, nats_url: str, extent: Extent, report: Report
) -> dict[str, Any]:
    async with AsyncExitStack() as parts:
        enter = parts.enter_async_context
        http = Http(url, SecretStr(_TOKEN))
        parts.push_async_callback(http.close)
        bus = await enter(connect(nats_url, FLEET))
        ours = await enter(Client(f"http://127.0.0.1:{gateway.port}/teams/fleet/mcp/fleet"))
        theirs = await enter(Client(f"http://127.0.0.1:{peer.port}/mcp"))
        world = _World(ours, theirs, Coder(http), bus, extent, report)
        found: dict[str, Any] = {"list": {}}
        for size in extent.sizes:
            report(f"{size} agents")
            await world.grow(size)
            found["list"][str(size)] = await _listing(world)
        report("starts, stops and statuses")
        found["tools"] = await _tools(world)
        found["tasks"] = await _tasks(world)
        report("histories")
        found["history"] = {str(length): await _history(world, length) for length in extent.histories}
        report("tasks at once")
        found["at_once"] = await _at_once(world, fleets)
        report("a replica is killed")
        found["kill"] = await _kill(world, fleets)
        return found


async def _listing(world: _World) -> dict[str, Any]:
    """Seconds of `list_agents`, ours and the peer's in turns."""
    warm, cold, theirs = list[float](), list[float](), list[float]()
    for _ in range(max(3, world.extent.calls // 20)):
        theirs.append(await world.timed("list_agents", world.peer))
        await asyncio.sleep(_COLD_SECONDS)
        cold.append(await world.timed("list_agents"))
        warm += [await world.timed("list_agents") for _ in range(20)]
    return {"warm": warm, "cold": cold, "peer": theirs}


async def _tools(world: _World) -> dict[str, Any]:
    """Seconds of other tools that both have."""
    found: dict[str, Any] = {}
    for tool, arguments in (
        ("show_agent", {"agent_name": "agent-1"}),
        ("list_agent_projects", {}),
        ("show_agent_task_history", {"agent_name": "agent-1"}),
    ):
        name = {"list_agent_projects": "list_agent_projects"}.get(tool, tool)
        found[tool] = {
            PALLAS: [await world.timed(tool, **arguments) for _ in range(world.extent.times)],
            PEER: [await world.timed(name, world.peer, **arguments) for _ in range(world.extent.times)],
        }
    return found


async def _tasks(world: _World) -> dict[str, list[float]]:
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
        events = terminal.events()
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


async def _history(world: _World, length: int) -> dict[str, Any]:
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
        pages = (1, length // size // 2, length // size)
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


async def _start(world: _World, count: int) -> list[str]:
    """Start a long task on each of so many agents; returns their turns."""
    room = asyncio.Semaphore(_CREATED_AT_ONCE)

    async def start(name: str) -> str:
        async with room:
            answer = await world.call("start_agent_task", agent_name=name, task_description=_LONG)
        return answer["task"]["id"].replace("-", "")

    return await asyncio.gather(*(start(f"agent-{number}") for number in range(count)))


async def _stop(world: _World, count: int) -> None:
    room = asyncio.Semaphore(_CREATED_AT_ONCE)

    async def stop(name: str) -> None:
        async with room:
            await world.call("stop_agent_task", agent_name=name)

    await asyncio.gather(*(stop(f"agent-{number}") for number in range(count)))
    await world.all_idle()


async def _at_once(world: _World, fleets: list[Process]) -> dict[str, Any]:
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


async def _kill(world: _World, fleets: list[Process]) -> dict[str, Any]:
    """Seconds until other replicas have all tasks of one that was killed, and prompts that were typed again."""
    count = world.extent.killed
    names = [f"agent-{number}" for number in range(count)]
    terminals = [await world.terminal(name) for name in names]
    before = [await _prompts(each) for each in terminals]
    turns = await _start(world, count)
    refs = [task_ref(turn) for turn in turns]
    claims = await last_claims(world.bus, refs)
    had = {turn: claim.worker for turn, claim in claims.items()}
    [lost, *_] = sorted(set(had.values()), key=lambda worker: -list(had.values()).count(worker))
    victim = next(each for each in fleets if lost in each.output())
    began = time.perf_counter()
    os.kill(victim.pid, signal.SIGKILL)

    async def taken() -> bool:
        now = await last_claims(world.bus, refs)
        return len(now) == count and all(claim.worker != lost for claim in now.values())

    await world.until(taken)
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
