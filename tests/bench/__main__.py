"""`python -m tests.bench [--quick] [--only NAME]`: measure, print the tables, write them to `bench/results/`.

A whole run writes `latest`, one of everything about recovery `recovery`, one of everything about authorisation `auth`,
one of the console, the fleet, fast-agent, the limits or the copies of the log alone `console`, `fleet`, `fast-agent`,
`limits` or `copies`; any other writes `partial`, so that it never replaces a whole one. Recovery, authorisation,
limits, copies, starting and tracing have to be asked for: each takes minutes.
"""

import argparse
import resource
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import (
    data_agents,
    fastagent,
    history,
    journal,
    machine,
    memory,
    pipelines,
    recovery,
    report,
    scaling,
    startup,
    throughput,
    tracing,
)
from tests.bench.auth import run as auth
from tests.bench.console import run as console
from tests.bench.fleet import run as fleet
from tests.bench.fleet import world as fleet_world
from tests.bench.load_process import Load, load_process
from tests.bench.scale import run as scale
from tests.bench.targets import judged

RESULTS = Path(__file__).parents[2] / "bench" / "results"
PARTS = ("throughput", "scaling", "memory", "journal", "fast-agent", "data-agents", "pipelines", "fleet", "console")
RECOVERY = ("kill", "resume", "history")
GROUPS = {"recovery": set(RECOVERY), "auth": set(auth.PARTS)}
ALONE = ("startup", "tracing", "limits", "copies")
"""Parts that have to be asked for, each with results of its own."""
OWN = (*ALONE, "console", "fleet", "fast-agent")
"""Parts with results of their own where nothing else is measured."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured."""

    rounds: int
    seconds: float
    concurrencies: tuple[int, ...]
    workers: tuple[int, ...]
    scaling_seconds: float
    modern: tuple[int, ...]
    legacy: tuple[int, ...]
    starts: int
    kills: int
    resumes: int
    logged: int
    executions: int
    replicas_killed: int
    journal: journal.Extent
    auth: auth.Extent
    console: console.Extent
    fleet: fleet_world.Extent
    limits: scale.Extent


WHOLE = Extent(
    6,
    1.3,
    (1, 64, 256),
    (1, 2, 4),
    6.0,
    (1000, 5000),
    (1000,),
    7,
    25,
    100,
    50_000,
    30,
    5,
    journal.WHOLE,
    auth.WHOLE,
    console.WHOLE,
    fleet_world.WHOLE,
    scale.WHOLE,
)
QUICK = Extent(
    1,
    0.5,
    (1, 64),
    (),
    0.0,
    (200,),
    (200,),
    1,
    3,
    10,
    1_000,
    5,
    1,
    journal.QUICK,
    auth.QUICK,
    console.QUICK,
    fleet_world.QUICK,
    scale.QUICK,
)


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a look in two or three minutes; too short to compare")
    parser.add_argument(
        "--only",
        action="append",
        choices=[*PARTS, *ALONE, *GROUPS, *RECOVERY, *auth.PARTS, *throughput.SUBJECTS],
        help="a part or a subject; repeatable",
    )
    options = parser.parse_args()
    wanted: set[str] = set(options.only or PARTS)
    for group in wanted & set(GROUPS):
        wanted = wanted - {group} | GROUPS[group]
    _raise_open_files()
    with tempfile.TemporaryDirectory(prefix="pallas-bench-") as folder:
        results = run(Path(folder), QUICK if options.quick else WHOLE, wanted, print_progress)
    path = report.write(results, RESULTS, _name(wanted) if not options.quick else "partial")
    print(path.read_text("utf-8"))
    print_progress(f"written to {path} and {path.with_suffix('.json')}")


def _name(wanted: set[str]) -> str:
    """What the results are called."""
    if wanted >= set(PARTS):
        return "latest"
    if len(wanted) == 1 and wanted <= set(OWN):
        return next(iter(wanted))
    return next((group for group, parts in GROUPS.items() if wanted == parts), "partial")


def run(folder: Path, extent: Extent, wanted: set[str], print_progress: Callable[[str], None]) -> dict[str, Any]:
    """Measure what is wanted. Returns the results with the machine's facts and the targets judged."""
    facts = machine.facts() | {"load_before": machine.load_average()}
    results: dict[str, Any] = {"machine": facts}
    names = wanted & set(throughput.SUBJECTS)
    with load_process(folder) as load:
        if "throughput" in wanted or names:
            results["throughput"] = _throughput(folder, load, extent, names or set(throughput.SUBJECTS), print_progress)
        if "scaling" in wanted and extent.workers:
            results["scaling"] = scaling.measure(folder, load, extent.workers, extent.scaling_seconds, print_progress)
        if "memory" in wanted:
            results["memory"] = memory.measure(folder, load, extent.modern, extent.legacy, print_progress)
        if "fast-agent" in wanted:
            measured = fastagent.measure(folder, load, extent.rounds, extent.seconds, print_progress)
            results["fast-agent"] = measured
        if "data-agents" in wanted:
            measured = data_agents.measure(folder, load, extent.rounds, extent.seconds, print_progress)
            results["data-agents"] = measured
        if "pipelines" in wanted:
            measured = pipelines.measure(folder, load, extent.executions, extent.replicas_killed, print_progress)
            results["pipelines"] = measured
        if wanted & set(auth.PARTS):
            results |= auth.measure(folder, load, extent.auth, wanted, print_progress)
        if "tracing" in wanted:
            results["tracing"] = tracing.measure(folder, load, extent.rounds, extent.seconds, print_progress)
    if "fleet" in wanted:
        results["fleet"] = fleet.measure(folder, extent.fleet, print_progress)
    if "console" in wanted:
        results["console"] = console.measure(folder, extent.console, print_progress)
    if "journal" in wanted:
        results["journal"] = journal.measure(folder, extent.journal, print_progress)
    if "limits" in wanted:
        results["limits"] = scale.measure(folder, extent.limits, print_progress)
    if "copies" in wanted:
        results["copies"] = scale.measure_copies(extent.limits, print_progress)
    if "startup" in wanted:
        results["startup"] = startup.measure(folder, extent.starts, print_progress)
    if "kill" in wanted:
        results["kill"] = recovery.measure_kills(folder, extent.kills, print_progress)
    if "resume" in wanted:
        results["resume"] = recovery.measure_resumes(folder, extent.resumes, print_progress)
    if "history" in wanted:
        results["history"] = history.measure(extent.logged, 200, print_progress)
    facts["load_after"] = machine.load_average()
    results["targets"] = judged(results)
    return results


def _throughput(
    folder: Path, load: Load, extent: Extent, names: set[str], print_progress: Callable[[str], None]
) -> dict[str, Any]:
    print_progress("starting Pallas and its peers")
    with throughput.subjects(folder, load) as found:
        subjects = [subject for subject in found if subject.name in names]
        return throughput.measure(subjects, extent.concurrencies, extent.rounds, extent.seconds, print_progress)


def print_progress(line: str) -> None:
    """Say how far the run is, beside its output."""
    print(line, file=sys.stderr, flush=True)


def _raise_open_files() -> None:
    """A waiting turn holds a socket in the gateway and one in the load process; children inherit the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    main()
