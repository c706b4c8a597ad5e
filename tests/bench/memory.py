"""Memory of one gateway for each turn that waits, and of the workers that run them.

The turns are running: claimed by a worker, one progress notification sent, the caller's stream open. Every measurement
has a gateway of its own, because memory that was used once is not given back.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.bench import stack
from tests.bench.load_process import Load
from tests.bench.processes import Measured

_WORKERS = 2
_SLOTS = 4096
_WARM_UP_CALLS = 64
_SETTLES_WITHIN = 1.0


def measure(
    folder: Path, load: Load, modern: Sequence[int], legacy: Sequence[int], report: Callable[[str], None]
) -> dict[str, Any]:
    """Hold so many waiting turns and read the gateway's memory, in each era."""
    with (
        stack.broker() as (url, _),
        stack.gateway(folder, url),  # declares the streams that workers wait for; serves nothing
        stack.workers(folder, url, count=_WORKERS, slots=_SLOTS) as workers,
    ):
        return {
            "modern": _measure(folder, load, url, workers, modern, report, legacy=False),
            "legacy": _measure(folder, load, url, workers, legacy, report, legacy=True),
        }


def _measure(
    folder: Path,
    load: Load,
    url: str,
    workers: Sequence[Measured],
    counts: Sequence[int],
    report: Callable[[str], None],
    *,
    legacy: bool,
) -> dict[str, Any]:
    measured: dict[str, Any] = {}
    with stack.gateway(folder, url) as gateway:
        stack.until_right(load, stack.function_call(gateway.port))
        load.run(stack.function_call(gateway.port), _WARM_UP_CALLS, 1.0)
        empty, empty_workers = gateway.rss_bytes(), sum(worker.rss_bytes() for worker in workers)
        held = 0
        for count in counts:
            report(f"memory: {count} waiting turns, {'legacy' if legacy else 'modern'}")
            answer = load.hold(stack.waiting_call(gateway.port), count - held, legacy=legacy)
            held = answer["held"]
            time.sleep(_SETTLES_WITHIN)
            measured[str(count)] = {
                "held": held,
                "ended": answer["ended"],
                "faults": answer["faults"],
                "gateway_mib": gateway.rss_bytes() / 2**20,
                "gateway_empty_mib": empty / 2**20,
                "kib_per_turn": (gateway.rss_bytes() - empty) / 1024 / held,
                "worker_kib_per_turn": (sum(worker.rss_bytes() for worker in workers) - empty_workers) / 1024 / held,
            }
        load.release()
    return measured
