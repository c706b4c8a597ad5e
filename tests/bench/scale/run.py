"""How far the platform goes, as far as two cores can show it; and the tables of that."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.scale import agents, log
from tests.bench.scale.log import LONG, Case
from tests.bench.tables import table

SHARE = 0.15
"""The share of a core that stands for a broker's machine."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: cases of the log, also with three copies; agents with so many brokers; of one worker."""

    cases: tuple[Case, ...]
    copied: tuple[Case, ...]
    agents: tuple[tuple[int, int], ...]
    hosted: tuple[int, ...]
    seconds: float


WHOLE = Extent(
    cases=(
        Case(1, 1),
        Case(1, 1, readers=0),
        Case(1, 1, readers=4),
        Case(1, 1, steps=LONG),
    ),
    copied=(
        Case(3, 3),
        Case(3, 3, steps=LONG),
        Case(3, 3, share=SHARE),
        Case(6, 3, share=SHARE),
    ),
    agents=((1_000, 1), (10_000, 1), (1_000, 3)),
    hosted=(100, 1_000),
    seconds=3.0,
)
QUICK = Extent(
    cases=(Case(1, 1),),
    copied=(Case(3, 3),),
    agents=((200, 1),),
    hosted=(50,),
    seconds=1.0,
)


def measure(folder: Path, extent: Extent, report: Callable[[str], None]) -> dict[str, Any]:
    """All figures."""
    folder = folder / "limits"
    folder.mkdir()
    return {
        "log": asyncio.run(log.measure(list(extent.cases), extent.seconds, report)),
        "agents": agents.measure(folder, list(extent.agents), extent.seconds, report),
        "workers": agents.measure_workers(folder, list(extent.hosted), extent.seconds, report),
    }


def measure_copies(extent: Extent, report: Callable[[str], None]) -> dict[str, Any]:
    """The log with three copies."""
    return {"log": asyncio.run(log.measure(list(extent.copied), extent.seconds, report))}


def section(found: dict[str, Any]) -> str:
    """The tables; of copies the first alone."""
    further = (_agents(found["agents"]), _workers(found["workers"])) if "agents" in found else ()
    return "\n\n".join((_log(found["log"]), *further))


def _log(cases: list[dict[str, Any]]) -> str:
    head = (
        "brokers", "copies", "core each", "messages a turn", "gateways", "turns/s", "messages/s", "p50 ms",
        "p99 ms", "brokers' CPU, ms a turn", "cores",
    )  # fmt: skip
    rows = [
        (
            str(it["brokers"]),
            str(it["replicas"]),
            "all" if it["share"] is None else f"{it['share']:.2f}",
            str(it["stored"]),
            str(it["readers"]),
            f"{it['per_second']:.0f}",
            f"{it['per_second'] * it['stored']:.0f}",
            f"{it['p50_ms']:.0f}",
            f"{it['p99_ms']:.0f}",
            ", ".join(f"{each:.2f}" for each in it["cpu_ms"]),
            f"{it['cores']:.2f}",
        )
        for it in cases
    ]
    note = (
        "Messages of real sizes, headers and fences from a client that costs little; 64 turns are under "
        "way. `core each`: what each broker may use of a core, which stands for its "
        "machine; `all`: brokers and load share two cores. `gateways` are connections that receive all live messages."
    )
    return "## One log\n\n" + note + "\n\n" + table(head, rows)


def _agents(counts: list[dict[str, Any]]) -> str:
    head = ("", *(f"{it['agents']} agents, {it['brokers']} broker(s)" for it in counts))
    rows = [(name, *(shown(it) for it in counts)) for name, shown in _ROWS.items()]
    return "## Many agents that nobody calls\n\n" + table(head, rows)


def _service(name: str) -> Callable[[dict[str, Any]], str]:
    def shown(found: dict[str, Any]) -> str:
        it = found[name]
        return f"{it['mib']:.0f} MiB; {it['ready_s']:.1f} s ({it['start_cpu_s']:.1f}); {it['idle_cores']:.1%}"

    return shown


_ROWS: dict[str, Callable[[dict[str, Any]], str]] = {
    "broker: memory empty, with definitions, with consumers; MiB": lambda it: ", ".join(
        f"{each:.0f}" for each in it["broker_mib"]
    ),
    "definitions written; consumers made; s": lambda it: f"{it['define_s']:.1f}; {it['consumers_s']:.1f}",
    "brokers, nothing happens: of a core": lambda it: f"{it['idle_cores']:.1%}",
    "brokers, one worker's pulls: of a core; MiB": lambda it: (
        f"{it['pulls']['cores']:.1%}; {it['pulls']['broker_mib']:.0f}"
    ),
    "depths of all queues read once, s": lambda it: f"{it['depths_s']:.2f}",
    "broker killed and started again, s": lambda it: (
        f"{it['restart_s']:.1f}" if it["restart_s"] is not None else "more than 60"
    ),
    "gateway: memory; until ready (its CPU); idle, of a core": _service("gateway"),
    "health monitor: the same": _service("monitor"),
    "registry: the same": _service("registry"),
}


def _workers(counts: list[dict[str, Any]]) -> str:
    head = (
        "agents in one worker",
        "until ready, s",
        "its CPU, s",
        "MiB",
        "idle, of a core",
        "broker, of a core",
    )
    rows = [
        (
            str(it["agents"]),
            f"{it['ready_s']:.1f}",
            f"{it['start_cpu_s']:.1f}",
            f"{it['mib']:.0f}",
            f"{it['idle_cores']:.1%}",
            f"{it['broker_cores']:.1%}",
        )
        for it in counts
    ]
    return "## A worker that hosts many agents\n\n" + table(head, rows)


def faults(found: dict[str, Any]) -> Iterator[str]:
    """What was wrong."""
    for it in found.get("log", ()):
        yield from (f"log, {it['brokers']} brokers: {text}" for text in it["refused"][:1])
