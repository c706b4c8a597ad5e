"""A simulation's results: a plot, a table of queue wait and workers over time, and both as JSON."""

import importlib
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.bench import machine
from tests.bench.figures import percentile
from tests.sim.course import Course, Moment, Plan

EVERY = 10.0
"""Seconds of a row."""


def write(plan: Plan, course: Course, folder: Path) -> Path:
    """Write `scale.md`, `scale.json` and `scale.png`; returns the path of the first."""
    folder.mkdir(parents=True, exist_ok=True)
    table = list(rows(course))
    (folder / "scale.json").write_text(
        json.dumps({"summary": summary(course), "rows": table}, indent=1) + "\n", "utf-8"
    )
    path = folder / "scale.md"
    path.write_text(markdown(plan, course, table), "utf-8")
    plot(course, folder / "scale.png")
    return path


def rows(course: Course) -> Iterator[dict[str, Any]]:
    """What there was in every span of `EVERY` seconds, and how long turns waited that were asked for in it."""
    begin = 0.0
    while moments := [moment for moment in course.moments if begin <= moment.at < begin + EVERY]:
        waits = [
            turn.waited for turn in course.turns if begin <= (turn.asked - course.began).total_seconds() < begin + EVERY
        ]
        last = moments[-1]
        yield {
            "from": begin,
            "callers": last.callers,
            "wanted": last.wanted,
            "ready": last.ready,
            "ending": last.ending,
            "waiting": max(moment.lag.waiting for moment in moments),
            "running": last.lag.running,
            "turns": len(waits),
            "p50": percentile(waits, 0.5) if waits else None,
            "p95": percentile(waits, 0.95) if waits else None,
            "max": max(waits, default=None),
        }
        begin += EVERY


def summary(course: Course) -> dict[str, Any]:
    """The run in a few figures."""
    waits = [turn.waited for turn in course.turns]
    return {
        "turns": len(course.turns),
        "not completed": sum(not turn.completed for turn in course.turns),
        "executed more than once": sum(turn.attempts > 1 for turn in course.turns),
        "workers that failed": len(course.failed),
        "most workers": max(moment.wanted for moment in course.moments),
        "seconds of workers": round(_area(course.moments)),
        "seconds waited, p50": percentile(waits, 0.5),
        "seconds waited, p95": percentile(waits, 0.95),
        "seconds waited, most": max(waits),
    }


def _area(moments: list[Moment]) -> float:
    """Seconds for which there were workers, those included that were ending."""
    return sum((after.at - before.at) * (before.wanted + before.ending) for before, after in pairwise(moments))


def markdown(plan: Plan, course: Course, table: list[dict[str, Any]]) -> str:
    """The head, the figures and the table."""
    facts = machine.facts()
    head = (
        "# Workers that follow the load\n\n"
        f"`make sim`, {facts['date']}, revision {facts['revision']}; {facts['cpu']}, {facts['cores']} cores, "
        f"load average {machine.load_average()} after the run.\n\n"
        f"Callers go from 0 to {max(count for _, count in plan.schedule)} and back, each with one turn of "
        f"{plan.turn_seconds:g} s at a time; a worker has {plan.slots} slots. Broker, workers and turns are real; the "
        "scaler is played, by the rules of the ScaledObject and the metric of a real health monitor. Its times "
        f"(polling, sync, stabilisation, cooldown) are divided by {plan.faster:g}; starting a worker takes as long as "
        "it takes."
    )
    figures = "\n".join(f"- {name}: {_shown(value)}" for name, value in summary(course).items())
    names = list(table[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---:|" * len(names)]
    lines += ["| " + " | ".join(_shown(value) for value in row.values()) + " |" for row in table]
    note = "Of each span: what there was at its end, most that waited in it, and how long its turns waited (seconds)."
    return "\n\n".join((head, "![plot](scale.png)", figures, note, "\n".join(lines))) + "\n"


def _shown(value: Any) -> str:
    match value:
        case None:
            return ""
        case float():
            return f"{value:.2f}".rstrip("0").rstrip(".")
        case _:
            return str(value)


def plot(course: Course, path: Path) -> None:
    """Draw load, workers and waits over time."""
    # It is there only where the group `bench` is installed.
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    figure, (load, pods, waits) = pyplot.subplots(3, 1, sharex=True, figsize=(9, 8), layout="constrained")
    at = [moment.at for moment in course.moments]
    load.plot(at, [moment.callers for moment in course.moments], label="callers")
    load.plot(at, [moment.lag.running for moment in course.moments], label="turns running")
    load.plot(at, [moment.lag.waiting for moment in course.moments], label="turns waiting")
    pods.step(at, [moment.wanted for moment in course.moments], where="post", label="workers wanted")
    pods.step(at, [moment.ready for moment in course.moments], where="post", label="ready")
    pods.step(at, [moment.ending for moment in course.moments], where="post", label="finishing their turns")
    asked = [(turn.asked - course.began).total_seconds() for turn in course.turns]
    waits.plot(asked, [turn.waited for turn in course.turns], ".", markersize=2, label="wait of a turn (s)")
    waits.set_xlabel("seconds")
    for axes in (load, pods, waits):
        axes.legend(loc="upper right")
        axes.grid(visible=True, alpha=0.3)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
