"""Turns a second with 1, 2 and 4 workers when the model takes 200 ms and every worker has few slots.

With few slots the workers, not the CPU, are what runs out, so twice the workers should do twice the turns.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.bench import stack
from tests.bench.figures import percentile
from tests.bench.load_process import Load
from tests.bench.processes import Measured, cpu_seconds

SLOTS = 7
USABLE = SLOTS - 1
"""A worker keeps one slot for agents that run nothing in it."""
MODEL_SECONDS = 0.2
_WARM_UP = 1.0


def measure(
    folder: Path, load: Load, counts: Sequence[int], seconds: float, report: Callable[[str], None]
) -> dict[str, Any]:
    """Add workers and measure at the given counts. The load is the same at each: more than all can take."""
    measured: dict[str, Any] = {}
    concurrency = 2 * USABLE * max(counts)
    with ExitStack() as parts:
        url, nats = parts.enter_context(stack.broker())
        gateway = parts.enter_context(stack.gateway(folder, url))
        processes: list[Measured] = [nats, gateway]
        call = stack.slow_llm_call(gateway.port)
        started = 0
        for count in sorted(counts):
            report(f"scaling: {count} worker(s)")
            processes += parts.enter_context(stack.workers(folder, url, count=count - started, slots=SLOTS))
            started = count
            stack.until_right(load, call)
            load.run(call, concurrency, _WARM_UP)
            before = sum(cpu_seconds(processes).values())
            run = load.run(call, concurrency, seconds)
            spent = sum(cpu_seconds(processes).values()) - before
            measured[str(count)] = {
                "per_second": len(run["latencies"]) / run["seconds"],
                "ideal_per_second": count * USABLE / MODEL_SECONDS,
                "p50_ms": 1000 * percentile(run["latencies"], 0.5),
                "cpu_share": spent / run["seconds"] / (os.cpu_count() or 1),
                "wrong": run["wrong"],
                "faults": run["faults"],
            }
    one = measured[str(min(counts))]["per_second"] / min(counts)
    for count, figures in measured.items():
        figures["of_linear"] = figures["per_second"] / (one * int(count))
    return {"slots": SLOTS, "usable": USABLE, "model_seconds": MODEL_SECONDS, "workers": measured}
