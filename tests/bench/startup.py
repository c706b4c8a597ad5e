"""How long starting takes, and what it costs: the whole stack until agents answer and until everything is ready, and a
worker until it has taken a turn that waits.

The last is what scaling from zero costs the caller of a team written in Python: it waits for the worker's imports.
CPU is that of all processes of the stack until all are ready; memory is their proportional share (PSS) when they wait.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psutil
from tests.bench import stack
from tests.bench.processes import Process
from tests.bench.recovery import TEAM, figures, instances_named, streamed, until_it_runs
from tests.bench.tables import table
from tests.e2e.stack import Stack, wait_until

_ANSWERS_WITHIN = 60.0
_SETTLES_WITHIN = 3.0


def measure(folder: Path, times: int, report: Callable[[str], None]) -> dict[str, Any]:
    """Start both so many times, each time anew. Returns their seconds."""
    ups: list[Up] = []
    for number in range(1, times + 1):
        report(f"pallas up, {number} of {times}")
        ups.append(_up(folder / f"up-{number}"))
    report(f"a worker with a turn that waits, {times} times")
    return {
        "up": figures([up.answers for up in ups]),
        "ready": figures([up.ready for up in ups]),
        "cpu_s": median(up.cpu for up in ups),
        "pss_mib": median(up.pss_mib for up in ups),
        "worker": figures(_first_turns(folder, times)),
    }


@dataclass(frozen=True, slots=True)
class Up:
    """One start of a stack: seconds until agents answer and until all is ready, seconds of CPU, MiB of memory."""

    answers: float
    ready: float
    cpu: float
    pss_mib: float


def _up(folder: Path) -> Up:
    since = time.perf_counter()
    with Stack(folder, "--no-turn", auth=True) as running:
        wait_until(lambda: "agents answer after" in running.text(), "the agents", _ANSWERS_WITHIN)
        answers = time.perf_counter() - since
        running.until_ready()
        ready = time.perf_counter() - since
        used = sum(map(_cpu, running.processes()))
        time.sleep(_SETTLES_WITHIN)
        return Up(answers, ready, used, sum(process.memory_full_info().pss for process in running.processes()) / 2**20)


def _cpu(process: psutil.Process) -> float:
    """The CPU seconds of a process and of those that it has waited for."""
    times = process.cpu_times()
    return times.user + times.system + times.children_user + times.children_system


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
    whats = {
        "up": "`pallas up` -> agents answer",
        "ready": "`pallas up` -> everything is ready",
        "worker": "worker started -> a waiting turn runs",
    }
    rows = [
        (what, str(found[name]["times"]), f"{found[name]['p50_s']:.2f}", f"{found[name]['p99_s']:.2f}")
        for name, what in whats.items()
    ]
    cost = f"Until all is ready: {found['cpu_s']:.1f} s of CPU. Waiting: {found['pss_mib']:.0f} MiB (PSS)."
    return "## Starting\n\n" + table(("", "times", "p50 s", "p99 s"), rows) + f"\n{cost}\n"
