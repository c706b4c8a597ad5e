"""What a turn costs with tracing and without: two stacks beside each other, of which one sends spans to a collector.

What the collector does with them is not counted; this one throws them away.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.bench import stack
from tests.bench.load_process import Load
from tests.bench.processes import running
from tests.bench.tables import table
from tests.bench.throughput import Measure, Subject
from tests.bench.throughput import measure as measure_subjects

CONCURRENCIES = (1, 64)
_HEAD = ("turn", "callers", "p50 ms", "p99 ms", "turns/s", "CPU a turn, ms")


def measure(
    folder: Path, load: Load, rounds: int, seconds: float, report: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """Figures by subject and concurrency."""
    report("starting Pallas twice, with tracing and without")
    with ExitStack() as parts:
        collector = parts.enter_context(running("collector", folder, "tests.bench.peers.collector", "{port}"))
        collector.wait_for("")
        traced = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}"}
        found = [
            subject
            for name, variables in (("off", {}), ("on", traced))
            for subject in parts.enter_context(_subjects(folder, load, name, variables))
        ]
        return measure_subjects(found, CONCURRENCIES, rounds, seconds, report)


@contextmanager
def _subjects(folder: Path, load: Load, name: str, variables: Mapping[str, str]) -> Generator[Sequence[Subject]]:
    """A stack, and the two kinds of turns on it."""
    own = folder / f"tracing-{name}"
    own.mkdir()
    with (
        stack.broker() as (url, nats),
        stack.gateway(own, url, variables) as gateway,
        stack.workers(own, url, variables) as workers,
    ):
        calls = {"function": stack.function_call(gateway.port), "LLM": stack.llm_call(gateway.port)}
        for call in calls.values():
            stack.until_right(load, call)

        def measuring(kind: str) -> Measure:
            return lambda concurrency, seconds: load.run(calls[kind], concurrency, seconds)

        yield [Subject(f"{kind} agent, tracing {name}", measuring(kind), (gateway, *workers, nats)) for kind in calls]


def section(figures: dict[str, Any]) -> str:
    """The figures as a table."""
    rows = [
        (
            subject,
            concurrency,
            f"{cell['p50_ms']:.2f}",
            f"{cell['p99_ms']:.2f}",
            f"{cell['per_second']:.0f}",
            f"{cell['cpu_ms_total']:.2f}",
        )
        for subject, cells in sorted(figures.items())
        for concurrency, cell in cells.items()
    ]
    note = "Two stacks, measured in turn in every round; spans go by HTTP to a collector that throws them away."
    return f"## Tracing\n\n{note}\n\n" + table(_HEAD, rows)


def faults(figures: dict[str, Any]) -> Generator[str]:
    """What was answered wrong."""
    for subject, cells in figures.items():
        for concurrency, cell in cells.items():
            if cell["wrong"]:
                yield f"{subject} at {concurrency}: {cell['wrong']} wrong, for example {cell['faults'][:1]}"
