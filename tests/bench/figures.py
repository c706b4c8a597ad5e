"""What was measured, and arithmetic on it. Latencies are in seconds inside, in milliseconds where they are shown."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0..1) of the values lie; NaN of none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1 if share else 0)]


def paired_ratio(these: Sequence[float], those: Sequence[float]) -> float:
    """The median of the ratios round by round: what disturbs one of two neighbours mostly disturbs the other."""
    return median(this / that for this, that in zip(these, those, strict=True))


def spread(what: str, seconds: Sequence[float]) -> dict[str, Any]:
    """How many of `what` there were, and p50 and p99 of their seconds, in ms."""
    p50, p99 = (1000 * percentile(seconds, share) for share in (0.5, 0.99))
    return {what: len(seconds), "p50_ms": p50, "p99_ms": p99}


type Cells = dict[str, dict[str, dict[str, Any]]]
"""The summaries of cells by subject and number of callers."""


def cell_rows(cells: Cells, names: Mapping[str, str], digits: str) -> list[Sequence[str]]:
    """Rows of a table: subject, callers, p50, p99, rate and CPU. `digits` are those of p50, p99, rate and CPU."""
    formats = list(zip(("p50_ms", "p99_ms", "per_second", "cpu_ms_total"), digits, strict=True))
    return [
        (names[name], callers, *(f"{cell[field]:.{digit}f}" for field, digit in formats))
        for name, by_callers in cells.items()
        for callers, cell in by_callers.items()
    ]


def cell_faults(cells: Cells, names: Mapping[str, str]) -> Iterator[str]:
    """What was answered wrong."""
    for name, by_callers in cells.items():
        for callers, cell in by_callers.items():
            if cell["wrong"]:
                yield f"{names[name]} at {callers}: {cell['wrong']} wrong, for example {cell['faults'][:1]}"


@dataclass
class Cell:
    """One subject at one concurrency, over all rounds."""

    latencies: list[float] = field(default_factory=list[float])
    rates: list[float] = field(default_factory=list[float])
    medians: list[float] = field(default_factory=list[float])
    slowest: list[float] = field(default_factory=list[float])
    cpu: dict[str, float] = field(default_factory=dict[str, float])
    wrong: int = 0
    faults: list[str] = field(default_factory=list[str])

    def add(self, run: dict[str, Any], cpu: dict[str, float]) -> None:
        """Add a round: what the load process answered, and the CPU seconds of each process meanwhile."""
        self.latencies += run["latencies"]
        self.medians.append(1000 * percentile(run["latencies"], 0.5))
        self.slowest.append(1000 * percentile(run["latencies"], 0.99))
        self.rates.append(len(run["latencies"]) / run["seconds"])
        self.wrong += run["wrong"]
        self.faults = [*self.faults, *run["faults"]][:3]
        for name, seconds in cpu.items():
            self.cpu[name] = self.cpu.get(name, 0.0) + seconds

    def summary(self) -> dict[str, Any]:
        """The figures of the cell: p50 and p99 in ms over all answers, the median rate, CPU in ms per turn."""
        turns = len(self.latencies)
        each = {name: 1000 * seconds / turns for name, seconds in self.cpu.items()} if turns else {}
        return {
            "turns": turns,
            "p50_ms": 1000 * percentile(self.latencies, 0.5),
            "p99_ms": 1000 * percentile(self.latencies, 0.99),
            "per_second": median(self.rates) if self.rates else math.nan,
            "p50_ms_rounds": self.medians,
            "p99_ms_rounds": self.slowest,
            "per_second_rounds": self.rates,
            "cpu_ms": each,
            "cpu_ms_total": sum(each.values()),
            "wrong": self.wrong,
            "faults": self.faults,
        }
