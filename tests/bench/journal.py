"""What the journal of a turn saves and costs: turns of many steps whose worker is killed or restarted.

The calls of the model and of the tool are counted where they arrive, outside of the platform.
"""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import httpx
from tests.bench import journal_cost, stack, stepping
from tests.bench.processes import Process
from tests.bench.stepping import Counted
from tests.bench.tables import table
from tests.chaos.collect import read_log
from tests.e2e import wire
from tests.integration.real_parts import until

from pallas_bus.connection import Bus, connect
from pallas_contracts.turns import Claimed, ToolFailed

STEPS, MODEL_SECONDS, KILLED_IN = 10, 0.3, 7
ROLLING_STEPS, ROLLING_MODEL_SECONDS = 20, 1.0
_ANSWERS_WITHIN = 180.0
_INTO_THE_CALL = 0.1
"""Seconds from the request to the model to the kill."""

_AHEAD = 3.0
"""Seconds that the turns run before the first worker is restarted."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: turns whose worker is killed, turns under a rolling restart, rounds of the cost."""

    kills: int
    rolling: int
    rounds: int


WHOLE, QUICK = Extent(5, 100, 15), Extent(1, 10, 2)


def measure(folder: Path, extent: Extent, report: Callable[[str], None]) -> dict[str, Any]:
    """Everything about the journal."""
    return {
        "kill": asyncio.run(_measured(folder / "journal-kill", lambda it: _kills(it, extent.kills, report))),
        "restart": asyncio.run(_measured(folder / "journal-restart", lambda it: _rolling(it, extent.rolling, report))),
        "cost": journal_cost.measure(extent.rounds, report),
    }


async def _measured(folder: Path, measure: Callable[["_Stage"], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
    async with _stage(folder) as stage:
        return await measure(stage)


@dataclass
class _Stage:
    """Two workers by name, each in a process that can be replaced."""

    parts: ExitStack
    folder: Path
    url: str
    bus: Bus
    http: httpx.AsyncClient
    gateway: Process
    counts: Counted
    workers: dict[str, Process]

    def start(self, name: str) -> None:
        """Start a worker."""
        variables = {"PALLAS_INSTANCE": name, "PALLAS_DRAIN_SECONDS": "20"}
        starting = stepping.starting_worker(self.folder, self.url, self.counts, variables, slots=128)
        self.workers[name] = self.parts.enter_context(starting)

    async def ready(self, name: str) -> None:
        """Wait until a worker can be used."""
        await asyncio.to_thread(self.workers[name].wait_for, "readyz")

    async def call(self, key: str, steps: int, model_seconds: float) -> bool:
        """Make a call; returns whether it was answered as it must be."""
        url = f"http://127.0.0.1:{self.gateway.port}/teams/steps/mcp/{stepping.AGENT}"
        request = wire.modern("tools/call", stepping.params(key, steps, model_seconds), request_id=key)
        async with wire.posted(self.http, url, request) as stream:
            if stream.response.status_code != 200:
                return False
            async for message in stream.messages():
                if "id" in message:
                    text = "\n".join(block["text"] for block in message.get("result", {}).get("content", ()))
                    return text == f"{key} done"
        return False

    async def worker_of_the_turn(self) -> str:
        """The worker that has the only turn without an outcome."""
        turns, _ = await read_log(self.bus)
        [turn] = [turn for turn in turns.values() if not turn.outcomes]
        last = turn.claims[-1].body
        assert isinstance(last, Claimed)
        return last.worker


@asynccontextmanager
async def _stage(folder: Path) -> AsyncGenerator[_Stage]:
    with ExitStack() as parts:
        counts = parts.enter_context(stepping.counted(folder))
        url, _ = parts.enter_context(stack.broker())
        gateway = parts.enter_context(stack.gateway(folder, url))
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=_ANSWERS_WITHIN, limits=limits) as http, connect(url, "bench") as bus:
            stage = _Stage(parts, folder, url, bus, http, gateway, counts, {})
            for name in ("one", "two"):
                stage.start(name)
            for name in stage.workers:
                await stage.ready(name)
            await until(lambda: stage.call("first", 1, 0.0), _ANSWERS_WITHIN)
            yield stage


async def _kills(stage: _Stage, times: int, report: Callable[[str], None]) -> dict[str, Any]:
    """Turns of ten steps, in turn undisturbed and with their worker killed while the model answers in the seventh."""
    plain: list[float] = []
    killed: list[float] = []
    right, model_calls, tool_calls = 0, list[int](), list[int]()
    for number in range(1, times + 1):
        report(f"a turn of {STEPS} steps whose worker is killed, {number} of {times}")
        began = time.perf_counter()
        assert await stage.call(f"plain{number}", STEPS, MODEL_SECONDS)
        plain.append(time.perf_counter() - began)
        key = f"killed{number}"
        began = time.perf_counter()
        calling = asyncio.create_task(stage.call(key, STEPS, MODEL_SECONDS))
        await until(partial(_asked, stage.counts, f"{key}/{KILLED_IN}"), _ANSWERS_WITHIN)
        name = await stage.worker_of_the_turn()
        await asyncio.sleep(_INTO_THE_CALL)
        os.kill(stage.workers[name].pid, signal.SIGKILL)
        right += await calling
        killed.append(time.perf_counter() - began)
        calls, effects = (_of(key, times) for times in stage.counts.times())
        model_calls.append(calls.total())
        tool_calls.append(effects.total())
        stage.start(name)
        await stage.ready(name)
    return {
        "times": times,
        "right": right,
        "share": right / times,
        "plain_s": plain,
        "killed_s": killed,
        "longer_s": median(killed) - median(plain),
        "model_calls": model_calls,
        "tool_calls": tool_calls,
    }


async def _rolling(stage: _Stage, turns: int, report: Callable[[str], None]) -> dict[str, Any]:
    """Turns of twenty steps at once, while each worker is restarted, one after the other."""
    report(f"{turns} turns of {ROLLING_STEPS} steps, while both workers are restarted")
    keys = [f"rolling{number}" for number in range(1, turns + 1)]
    began = time.perf_counter()
    calling = [asyncio.create_task(stage.call(key, ROLLING_STEPS, ROLLING_MODEL_SECONDS)) for key in keys]
    await asyncio.sleep(_AHEAD)
    drained: list[float] = []
    for name in list(stage.workers):
        since = time.perf_counter()
        await asyncio.to_thread(stage.workers[name].stop)
        drained.append(time.perf_counter() - since)
        stage.start(name)
        await stage.ready(name)
    restarted = time.perf_counter() - began
    right = sum(await asyncio.gather(*calling))
    calls, effects = (
        Counter({call: count for call, count in times.items() if call.startswith("rolling")})
        for times in stage.counts.times()
    )
    logged, _ = await read_log(stage.bus)
    return {
        "turns": turns,
        "lost": turns - right,
        "seconds": time.perf_counter() - began,
        "restarted_after_s": restarted,
        "drained_s": drained,
        "model_calls": calls.total(),
        "tool_calls": effects.total(),
        "again": (calls + effects).total() - len(calls) - len(effects),
        "left_out": turns * (2 * ROLLING_STEPS + 1) - len(calls) - len(effects),
        "failed_tools": [
            event.code
            for turn in logged.values()
            for event in (at.body[1] for at in turn.events)
            if isinstance(event, ToolFailed)
        ],
        "moved": sum(len(turn.attempts) > 1 for turn in logged.values()),
    }


def section(found: dict[str, Any]) -> str:
    """The tables."""
    kill, restart, cost = found["kill"], found["restart"], found["cost"]
    rows = [
        (
            f"{STEPS} steps, worker killed in the model call of step {KILLED_IN}",
            f"{kill['times']}",
            f"{kill['right']}",
            _span(kill["model_calls"]),
            _span(kill["tool_calls"]),
            f"{median(kill['killed_s']):.2f} ({median(kill['plain_s']):.2f} without a kill)",
        ),
        (
            f"{ROLLING_STEPS} steps, both workers restarted one after the other",
            f"{restart['turns']}",
            f"{restart['turns'] - restart['lost']}",
            f"{restart['model_calls']} in all",
            f"{restart['tool_calls']} in all",
            f"{restart['seconds']:.2f} for all",
        ),
    ]
    drained = " and ".join(f"{seconds:.1f} s" for seconds in restart["drained_s"])
    notes = (
        f"A step is a call of the model ({MODEL_SECONDS:g} s; under the restart {ROLLING_MODEL_SECONDS:g} s) "
        "and a call of a tool that may not be called again; a last call of the model answers. Calls are counted where "
        f"they arrive. Under the restart all turns run at once; {restart['moved']} of them went on in another worker, "
        f"{restart['again']} calls were made twice, and the workers drained in {drained}.\n\n"
        f"Keeping the journal costs {cost['all_ms']:.3f} ms of CPU for each call of a model or tool: "
        f"{cost['cost_ms']:.3f} ms in worker and gateway (median of {len(cost['cost_ms_rounds'])} rounds with and "
        f"without it in one process; {cost['bare_ms']:.2f} ms without) and {cost['broker_ms']:.3f} ms in the broker."
    )
    head = ("turns", "times", "answered", "model calls", "tool calls", "seconds")
    return "## Turns that go on in another worker\n\n" + table(head, rows) + f"\n\n{notes}"


def faults(found: dict[str, Any]) -> Generator[str]:
    """What went wrong."""
    if not found:
        return
    kill, restart = found["kill"], found["restart"]
    if kill["right"] != kill["times"]:
        yield f"worker killed: {kill['times'] - kill['right']} turns were not answered"
    if restart["lost"] or restart["again"]:
        yield f"rolling restart: {restart['lost']} turns lost, {restart['again']} calls made twice"
    if restart["left_out"]:
        yield f"rolling restart: {restart['left_out']} calls not made; tools failed with {restart['failed_tools']}"


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return f"{low}" if low == high else f"{low} to {high}"


async def _asked(counts: Counted, call: str) -> bool:
    return counts.times()[0][call] > 0


def _of(key: str, times: Counter[str]) -> Counter[str]:
    return Counter({call: count for call, count in times.items() if call.partition("/")[0] == key})
