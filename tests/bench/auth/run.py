"""The parts about authorisation, one after the other over one truth."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from tests.bench.auth import changing, resolving, searching, staleness
from tests.bench.auth.parts import parts
from tests.bench.auth.truth import api, make_libraries, make_team
from tests.bench.load_process import Load

RESOLVE, CHANGE, STALE, SEARCH = "resolve", "change", "stale", "search"
PARTS = (RESOLVE, CHANGE, STALE, SEARCH)


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured."""

    libraries: int
    teams: int
    resolving: resolving.Extent
    changes: int
    interleaved: int
    searching: searching.Extent


WHOLE = Extent(1000, 256, resolving.Extent((1, 64, 256), 6, 1.0), 100, 10_000, searching.Extent(10_000, (1, 8), 0.7))
QUICK = Extent(100, 64, resolving.Extent((1, 64), 1, 0.5), 10, 1000, searching.Extent(500, (1,), 0.2))


def measure(
    folder: Path, load: Load, extent: Extent, wanted: set[str], report: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """Measure the wanted parts. Returns results by part."""
    results: dict[str, dict[str, Any]] = {}
    if wanted & {RESOLVE, CHANGE, SEARCH}:
        with parts(folder) as running, api(running.lifecycle.port) as lifecycle:
            report(f"making {extent.libraries} libraries and {extent.teams} teams")
            workspaces = make_libraries(lifecycle, extent.libraries)
            teams = [
                make_team(lifecycle, workspace, uids)
                for workspace, uids in islice(cycle(workspaces.items()), extent.teams)
            ]
            if RESOLVE in wanted:
                results[RESOLVE] = resolving.measure(running, load, teams, extent.resolving, report)
            if CHANGE in wanted:
                results[CHANGE] = changing.measure(running, teams, extent.changes, report)
            if SEARCH in wanted:
                libraries = [uid for uids in workspaces.values() for uid in uids]
                results[SEARCH] = searching.measure(running, load, teams[0], libraries, extent.searching, report)
    if STALE in wanted:
        results[STALE] = staleness.measure(folder, extent.interleaved, report)
    return results
