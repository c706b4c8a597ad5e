"""What many agents cost: definitions in each process that keeps them, consumers at the broker, and pulls.

Nobody calls them. So what is measured is what an installation pays for agents that are only there.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import batched
from pathlib import Path
from typing import Any

from tests.bench import stack
from tests.bench.processes import Measured, Process, running
from tests.bench.scale.brokers import Cluster, brokers
from tests.bench.scale.wire import connect as connect_wire
from tests.bench.scale.wire import message
from tests.builders import agent_definition

from pallas_bus.connection import Bus, connect
from pallas_bus.kv import put
from pallas_contracts.catalog import AGENTS, GATEWAY, TURN_QUEUE
from pallas_turns.pull import PULL_EXPIRES
from pallas_turns.queue import consumer_name, ensure_consumer, queue_depths

_TEAM = 100
"""Agents of a team."""
_AT_ONCE = 50
_DESCRIPTION = "Answers questions about one part of a product, and says where it has read that. " * 4

type Report = Callable[[str], None]


def measure(folder: Path, counts: list[tuple[int, int]], seconds: float, report: Report) -> list[dict[str, Any]]:
    """Measure with so many agents, on so many brokers. Returns the figures of each."""
    return [asyncio.run(_measure(folder, agents, replicas, seconds, report)) for agents, replicas in counts]


async def _measure(folder: Path, agents: int, replicas: int, seconds: float, report: Report) -> dict[str, Any]:
    async with brokers(replicas) as cluster:
        url = cluster.servers[0].url
        names = [(f"team{number // _TEAM}", f"agent{number}") for number in range(agents)]
        with stack.gateway(folder, url, {"PALLAS_STREAM_REPLICAS": str(replicas)}):
            pass  # it has declared the streams
        empty = _memory(cluster)
        report(f"agents: {agents} definitions, {replicas} broker(s)")
        async with connect(url, GATEWAY) as bus:
            found: dict[str, Any] = {"agents": agents, "brokers": replicas}
            found["define_s"] = await _each(names, lambda team, agent: _define(bus, team, agent))
            defined = _memory(cluster)
            report("agents: their consumers")
            found["consumers_s"] = await _each(names, lambda team, agent: _consume(bus, team, agent))
            found["broker_mib"] = [empty, defined, _memory(cluster)]
            found["idle_cores"] = await _cores(cluster.measured, seconds)
            found["depths_s"] = await _timed(queue_depths(bus))
            report("agents: their pulls")
            found["pulls"] = await _pulls(cluster, names, seconds)
        found |= await asyncio.to_thread(_services, folder, url, seconds, report)
        report("agents: the broker is started again")
        found["restart_s"] = await _restarted(cluster)
        return found


async def _restarted(cluster: Cluster) -> float | None:
    """Seconds until the first broker serves again after it was killed; None when that takes more than a minute."""
    began = time.perf_counter()
    try:
        await asyncio.to_thread(cluster.servers[0].restart, kill=True)
    except RuntimeError:
        return None
    return time.perf_counter() - began


def _memory(cluster: Cluster) -> float:
    """MiB of the first broker."""
    return cluster.measured[0].rss_bytes() / 2**20


async def _define(bus: Bus, team: str, agent: str) -> None:
    definition = agent_definition(team, agent, description=_DESCRIPTION)
    await put(bus, AGENTS, definition, team=team, agent=agent)


async def _consume(bus: Bus, team: str, agent: str) -> None:
    await ensure_consumer(bus, team, agent, max_concurrency=None)


async def _each(names: list[tuple[str, str]], do: Callable[[str, str], Any]) -> float:
    """Do something for each agent, some at a time. Returns seconds."""
    began = time.perf_counter()
    for some in batched(names, _AT_ONCE, strict=False):
        await asyncio.gather(*(do(*name) for name in some))
    return time.perf_counter() - began


async def _timed(work: Any) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


async def _cores(measured: list[Measured], seconds: float) -> float:
    """Cores that these processes use together when nothing happens."""
    before = sum(each.cpu_seconds() for each in measured)
    await asyncio.sleep(seconds)
    return (sum(each.cpu_seconds() for each in measured) - before) / seconds


async def _pulls(cluster: Cluster, names: list[tuple[str, str]], seconds: float) -> dict[str, float]:
    """A worker's pull at each agent, repeated as workers do: cores that the brokers use for that, and memory."""
    async with _pulling(cluster.servers[0].port, names):
        await asyncio.sleep(PULL_EXPIRES)
        return {"cores": await _cores(cluster.measured, seconds), "broker_mib": _memory(cluster)}


@asynccontextmanager
async def _pulling(port: int, names: list[tuple[str, str]]) -> AsyncGenerator[None]:
    wire = await connect_wire(port, None, "d.*")
    body = json.dumps({"batch": 1, "expires": int(PULL_EXPIRES * 1e9)}).encode()
    consumers = [consumer_name(*name) for name in names]
    asked = [message(f"$JS.API.CONSUMER.MSG.NEXT.{TURN_QUEUE.name}.{it}", body, reply=f"d.{it}") for it in consumers]

    async def pull() -> None:
        slices = int(PULL_EXPIRES * 10)
        while True:
            for number in range(slices):
                wire.send(b"".join(asked[number::slices]))
                await asyncio.sleep(PULL_EXPIRES / slices)

    task = asyncio.create_task(pull())
    try:
        yield
    finally:
        task.cancel()


def _services(folder: Path, url: str, seconds: float, report: Report) -> dict[str, Any]:
    """Start each service that knows all agents: until it is ready, its memory, its CPU while nothing happens."""
    found: dict[str, Any] = {}
    env = {"PALLAS_NATS_URL": url, "PALLAS_PORT": "{port}"}
    for name, module in (("gateway", ""), ("monitor", "health_monitor"), ("registry", "registry")):
        report(f"agents: {name}")
        began = time.perf_counter()
        starting = stack.gateway(folder, url) if not module else running(name, folder, module, env=env)
        with starting as process:
            process.wait_for("readyz")
            found[name] = _figures(process, began, seconds)
    return found


def _figures(process: Process, began: float, seconds: float) -> dict[str, float]:
    ready = time.perf_counter() - began
    before = process.cpu_seconds()
    time.sleep(seconds)
    return {
        "ready_s": ready,
        "start_cpu_s": before,
        "mib": process.rss_bytes() / 2**20,
        "idle_cores": (process.cpu_seconds() - before) / seconds,
    }


def measure_workers(folder: Path, counts: list[int], seconds: float, report: Report) -> list[dict[str, Any]]:
    """A worker that hosts so many agents with a model: until it is ready, its memory, its CPU, the broker's."""
    return [_worker(folder, count, seconds, report) for count in counts]


def _worker(folder: Path, count: int, seconds: float, report: Report) -> dict[str, Any]:
    report(f"agents: a worker with {count}")
    team = _team(folder / f"team-{count}", count)
    with stack.broker() as (url, nats), stack.gateway(folder, url):
        began = time.perf_counter()
        with stack.starting_worker(folder, url, team=team) as worker:
            worker.wait_for("readyz")
            used, figures = nats.cpu_seconds(), _figures(worker, began, seconds)
            return {"agents": count, **figures, "broker_cores": (nats.cpu_seconds() - used) / seconds}


def _team(folder: Path, count: int) -> Path:
    folder.mkdir()
    agents = "".join(
        f"  agent{number}: {{title: Agent {number}, instruction: You answer.}}\n" for number in range(count)
    )
    (folder / "agents.yaml").write_text(f"name: crowd{count}\nversion: 1.0.0\nagents:\n{agents}", "utf-8")
    config = (stack.TEAM / "fastagent.config.yaml").read_text("utf-8")
    (folder / "fastagent.config.yaml").write_text(config, "utf-8")
    return folder
