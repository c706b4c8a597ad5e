"""Turns a second through one log, and what a turn costs each broker."""

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import Any

from tests.bench.scale.brokers import Cluster, brokers, held_to
from tests.bench.scale.load import Task
from tests.bench.scale.turns import Shape

SHORT, LONG = 1, 10
"""Steps of a turn: a model that answers at once; one that calls ten tools."""


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement. `share` is how much of a core each broker may use."""

    brokers: int
    replicas: int
    steps: int = SHORT
    readers: int = 1
    at_once: int = 64
    share: float | None = None


async def measure(cases: list[Case], seconds: float, report: Callable[[str], None]) -> list[dict[str, Any]]:
    """Measure each case on brokers of its own."""
    found: list[dict[str, Any]] = []
    for case in cases:
        report(f"log: {case}")
        async with brokers(case.brokers) as cluster:
            await cluster.make(case.replicas)
            found.append(asdict(case) | await _measure(cluster, case, seconds))
        report(f"  {found[-1]['per_second']:.0f} turns/s, {found[-1]['cpu_ms']}")
    return found


async def _measure(cluster: Cluster, case: Case, seconds: float) -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(held_to(case.share, cluster.measured))
        load = await _started(cluster, case, seconds)
        await _line(load)
        before = [each.cpu_seconds() for each in cluster.measured]
        await _line(load)
        spent = [each.cpu_seconds() - was for each, was in zip(cluster.measured, before, strict=True)]
        run = json.loads(await _line(load))
        await load.wait()
    turns = run["turns"]
    return {
        "per_second": turns / run["seconds"],
        "stored": Shape(case.steps).stored + 1,
        "p50_ms": run["p50_ms"],
        "p99_ms": run["p99_ms"],
        "cpu_ms": [1000 * each / turns for each in spent],
        "cores": sum(spent) / run["seconds"],
        "repeated": run["repeated"] / turns,
        "refused": run["refused"],
    }


async def _started(cluster: Cluster, case: Case, seconds: float) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    load = await asyncio.create_subprocess_exec(sys.executable, "-m", "tests.bench.scale.load", stdin=pipe, stdout=pipe)
    assert load.stdin is not None
    task = Task(cluster.servers[0].port, case.steps, case.at_once, case.readers, seconds)
    load.stdin.write(task.to_json().encode() + b"\n")
    return load


async def _line(load: asyncio.subprocess.Process) -> bytes:
    assert load.stdout is not None
    if not (line := await load.stdout.readline()):
        raise RuntimeError("a load process ended")
    return line
