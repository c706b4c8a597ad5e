"""How long starting takes: the whole stack until agents answer, and a worker until it has taken a turn that waits.

The second is what scaling from zero costs the caller of a team written in Python: it waits for the worker's imports.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
from tests.bench import stack
from tests.bench.processes import Process
from tests.bench.recovery import TEAM, figures, instances_named, streamed, until_it_runs
from tests.bench.tables import table
from tests.e2e.stack import Stack, wait_until

_ANSWERS_WITHIN = 60.0


def measure(folder: Path, times: int, report: Callable[[str], None]) -> dict[str, Any]:
    """Start both so many times, each time anew. Returns their seconds."""
    ups: list[float] = []
    for number in range(1, times + 1):
        report(f"pallas up, {number} of {times}")
        ups.append(_up(folder / f"up-{number}"))
    report(f"a worker with a turn that waits, {times} times")
    return {"up": figures(ups), "worker": figures(_first_turns(folder, times))}


def _up(folder: Path) -> float:
    since = time.perf_counter()
    with Stack(folder, "--no-turn", auth=True) as running:
        wait_until(lambda: "agents answer after" in running.text(), "the agents", _ANSWERS_WITHIN)
        return time.perf_counter() - since


def _first_turns(folder: Path, times: int) -> list[float]:
    with ExitStack() as parts, httpx.Client(timeout=_ANSWERS_WITHIN) as http:
        url, _ = parts.enter_context(stack.broker())
        gateway = parts.enter_context(stack.gateway(folder, url))
        with stack.workers(folder, url, team=TEAM):
            until_it_runs(http, gateway)
        return [_first_turn(http, gateway, folder, url) for _ in range(times)]


def _first_turn(http: httpx.Client, gateway: Process, folder: Path, url: str) -> float:
    with streamed(http, gateway) as response:
        since = time.perf_counter()
        with stack.starting_worker(folder, url, team=TEAM):
            next(instances_named(response))
            return time.perf_counter() - since


def section(found: dict[str, Any]) -> str:
    """The table."""
    whats = {"up": "`pallas up` -> agents answer", "worker": "worker started -> a waiting turn runs"}
    rows = [
        (what, str(found[name]["times"]), f"{found[name]['p50_s']:.2f}", f"{found[name]['p99_s']:.2f}")
        for name, what in whats.items()
    ]
    return "## Starting\n\n" + table(("", "times", "p50 s", "p99 s"), rows)
