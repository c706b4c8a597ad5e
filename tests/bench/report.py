"""The results as markdown and JSON."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import tests.bench.auth.tables as auth
import tests.bench.console.run as console
import tests.bench.fleet.tables as fleet
import tests.bench.scale.run as scale
from tests.bench import data_agents, fastagent, journal, pipelines, startup, tracing
from tests.bench.figures import cell_faults
from tests.bench.tables import table
from tests.bench.throughput import SUBJECTS

type Results = dict[str, Any]


def write(results: Results, folder: Path, name: str) -> Path:
    """Write `name.json` and `name.md`; returns the path of the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    path = folder / f"{name}.md"
    path.write_text(markdown(results), "utf-8")
    return path


def markdown(results: Results) -> str:
    """The tables."""
    sections = [_head(results["machine"]), _targets(results["targets"])]
    for part, written in _SECTIONS.items():
        if part in results:
            sections += [section(results[part]) for section in written]
    if any(part in results for part in ("kill", "resume", "history")):
        sections.append(_recovery(results))
    sections += auth.sections(results)
    if faults := list(_faults(results)):
        sections.append("## Wrong answers\n\n" + "\n".join(f"- {fault}" for fault in faults))
    return "\n\n".join(sections) + "\n"


def _head(machine: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    return (
        f"# Benchmark, {machine['date']}, revision {machine['revision']}\n\n"
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, "
        f"Python {machine['python']}; {versions}. Load average {machine['load_before']} before the run and "
        f"{machine['load_after']} after it. Callers, servers and broker share the cores."
    )


def _targets(verdicts: Sequence[dict[str, Any]]) -> str:
    rows = [
        (it["name"], f"{it['figure']:.2f} {it['unit']}", it["wanted"], "met" if it["met"] else "**missed**")
        for it in verdicts
    ]
    note = "Ratios are medians over the rounds, each against its neighbour of the same round."
    return f"## Targets\n\n{note}\n\n" + table(("target", "measured", "wanted", ""), rows)


def _throughput(figures: dict[str, Any]) -> str:
    concurrencies = list(next(iter(figures.values())))
    head = ["subject", *(f"{it}: {what}" for it in concurrencies for what in ("p50 ms", "p99 ms", "turns/s"))]
    rows = [
        [SUBJECTS[name], *(text for it in concurrencies for text in _latency(cells[it]))]
        for name, cells in figures.items()
    ]
    return (
        "## Latency and turns a second, by callers at once\n\n"
        "A turn has 5 progress notifications and is checked. The model takes no time, so all latency is added.\n\n"
        + table(head, rows)
    )


def _latency(cell: dict[str, Any]) -> tuple[str, str, str]:
    return f"{cell['p50_ms']:.2f}", f"{cell['p99_ms']:.2f}", f"{cell['per_second']:.0f}"


def _cpu(figures: dict[str, Any]) -> str:
    rows = [
        (SUBJECTS[name], concurrency, _split(cell["cpu_ms"]), f"{cell['cpu_ms_total']:.2f}")
        for name, cells in figures.items()
        for concurrency, cell in cells.items()
    ]
    return "## CPU a turn, ms\n\n" + table(("subject", "callers", "by process", "all"), rows)


def _split(each: dict[str, float]) -> str:
    return ", ".join(f"{name} {spent:.2f}" for name, spent in each.items())


def _scaling(figures: dict[str, Any]) -> str:
    rows = [
        (
            count,
            f"{it['per_second']:.0f}",
            f"{it['ideal_per_second']:.0f}",
            f"{it['of_linear']:.2f}",
            f"{it['cpu_share']:.0%}",
        )
        for count, it in figures["workers"].items()
    ]
    return (
        f"## Workers, when the model takes {figures['model_seconds'] * 1000:.0f} ms\n\n"
        f"{figures['usable']} turns at once in each worker (PALLAS_SLOTS={figures['slots']}, one of them kept for "
        "other agents). Ideal: slots over the model's time, if all else cost nothing.\n\n"
        + table(("workers", "turns/s", "ideal", "of linear", "CPU of the machine"), rows)
    )


def _memory(figures: dict[str, Any]) -> str:
    rows = [
        (
            f"{count} {era}",
            f"{it['kib_per_turn']:.1f}",
            f"{it['gateway_empty_mib']:.0f} -> {it['gateway_mib']:.0f}",
            f"{it['worker_kib_per_turn']:.1f}",
        )
        for era, counts in figures.items()
        for count, it in counts.items()
    ]
    return (
        "## Memory of waiting turns\n\n"
        "Each is claimed by a worker and has been sent one progress notification; one gateway holds them all.\n\n"
        + table(("waiting turns", "gateway, KiB a turn", "gateway, MiB", "workers, KiB a turn"), rows)
    )


def _recovery(results: Results) -> str:
    rows: list[tuple[str, str, str, str]] = []
    for what, it in (
        ("worker killed (-9) -> next event at the caller", results.get("kill")),
        ("called again with its key at another gateway -> first event", results.get("resume", {}).get("key")),
        ("resumed at another gateway by Last-Event-ID -> next event", results.get("resume", {}).get("event_id")),
    ):
        if it is not None:
            rows.append((what, str(it["times"]), f"{1000 * it['p50_s']:.1f}", f"{1000 * it['p99_s']:.1f}"))
    if "history" in results:
        log = results["history"]
        for how, what in (("by_address", "team, agent and id"), ("by_id", "its id alone")):
            it = log[how]
            read = f"one turn read out of {log['messages']} messages of {log['turns']} turns, by {what}"
            rows.append((read, str(it["reads"]), f"{it['p50_ms']:.1f}", f"{it['p99_ms']:.1f}"))
    note = "Turns that report every 50 ms and may be executed again; three workers."
    return f"## Recovery\n\n{note}\n\n" + table(("", "times", "p50 ms", "p99 ms"), rows)


_SECTIONS: dict[str, tuple[Callable[[Any], str], ...]] = {
    "throughput": (_throughput, _cpu),
    "scaling": (_scaling,),
    "memory": (_memory,),
    "fast-agent": (fastagent.section,),
    "data-agents": (data_agents.section,),
    "pipelines": (pipelines.section,),
    "fleet": (fleet.section,),
    "console": (console.section,),
    "limits": (scale.section,),
    "copies": (scale.section,),
    "journal": (journal.section,),
    "startup": (startup.section,),
    "tracing": (tracing.section,),
}
"""What each part writes, in this order."""

_FAULTS: dict[str, Callable[[Any], Iterable[str]]] = {
    "fast-agent": fastagent.faults,
    "data-agents": data_agents.faults,
    "pipelines": pipelines.faults,
    "console": console.faults,
    "limits": scale.faults,
    "copies": scale.faults,
    "journal": journal.faults,
    "tracing": tracing.faults,
}


def _faults(results: Results) -> Iterable[str]:
    yield from cell_faults(results.get("throughput", {}), SUBJECTS)
    for count, it in results.get("scaling", {}).get("workers", {}).items():
        if it["wrong"]:
            yield f"{count} workers: {it['wrong']} wrong, for example {it['faults'][:1]}"
    for era, counts in results.get("memory", {}).items():
        for count, it in counts.items():
            if it["ended"] or it["held"] != int(count):
                yield f"{count} waiting turns, {era}: {it['ended']} ended, for example {it['faults'][:1]}"
    for part, faults in _FAULTS.items():
        yield from faults(results.get(part, {}))
    yield from auth.faults(results)
