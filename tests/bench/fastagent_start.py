"""What an agent of fast-agent costs before it works: making one with three servers, and the start of its worker."""

import asyncio
import json
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.calls import Call, fault_of
from tests.bench.http_client import connect
from tests.bench.processes import Process
from tests.bench.tables import table

_BUILDS, _STARTS = 15, 3
_WITHIN = 120.0


def builds(python: Path, folder: Path) -> dict[str, float]:
    """Median milliseconds until an agent with three servers is made, on the worker and on fast-agent."""
    command = (python, "-m", "tests.bench.peers.fastagent_build", str(folder), str(_BUILDS))
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {name: median(times[1:]) for name, times in json.loads(run.stdout).items()}


def from_zero(call: Call, start: Callable[[], AbstractContextManager[Process]]) -> list[float]:
    """Seconds from a call of an agent without a worker to its answer; a worker is started at once."""
    return [asyncio.run(_from_zero(call, start)) for _ in range(_STARTS)]


async def _from_zero(call: Call, start: Callable[[], AbstractContextManager[Process]]) -> float:
    connection = await connect(call.port)
    began = time.perf_counter()
    asking = asyncio.create_task(connection.ask(call.modern()))
    with start():
        answer = await asyncio.wait_for(asking, _WITHIN)
        took = time.perf_counter() - began
    connection.close()
    if (fault := fault_of(call, answer)) is not None:
        raise RuntimeError(f"the turn that waited was answered wrong: {fault}")
    return took


def ready(start: Callable[[], AbstractContextManager[Process]]) -> list[float]:
    """Seconds from the start of a worker until it is ready: its agents are made and published."""
    return [_ready(start) for _ in range(_STARTS)]


def _ready(start: Callable[[], AbstractContextManager[Process]]) -> float:
    began = time.perf_counter()
    with start() as process:
        process.wait_for("readyz")
        return time.perf_counter() - began


def section(found: dict[str, Any]) -> str:
    """The table."""
    rows = [
        ("an agent with three servers, made by fast-agent", f"{found['builds']['stock']:.1f} ms"),
        ("the same, made for a turn of fast-agent-worker", f"{found['builds']['worker']:.1f} ms"),
        (
            "an agent without a worker is called, a worker is started -> its answer",
            f"{median(found['from_zero']):.1f} s",
        ),
        ("a worker with a folder of 20 cards is started -> it is ready", f"{median(found['cards']):.1f} s"),
    ]
    return table(("before an agent works", "median"), rows)
