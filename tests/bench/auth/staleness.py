"""Answers that are older than a confirmed change, counted in a storm of changes and look-ups.

With protection everything is killed in between; without it nothing is, and the storm ends with the first stale answer.
"""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.auth.changing import PROTECTED, UNPROTECTED
from tests.integration.stale.parts import parts
from tests.integration.stale.storm import Storm

_WITHIN = 240.0
_UNTIL_STALE = 10
"""By how much the storm without protection may be longer: when its first stale answer comes is chance."""


def measure(folder: Path, most: int, report: Callable[[str], None]) -> dict[str, Any]:
    """Run both storms, of so many changes and look-ups at least."""
    results: dict[str, Any] = {}
    for way, protected in ((UNPROTECTED, False), (PROTECTED, True)):
        (folder / way).mkdir()
        results[way] = asyncio.run(_storm(folder / way, most, report, protected=protected))
    return results


async def _storm(folder: Path, most: int, report: Callable[[str], None], *, protected: bool) -> dict[str, Any]:
    seed = random.randrange(10**6)
    report(f"{most} changes and look-ups, {'protected' if protected else 'unprotected'}, seed {seed}")
    async with parts(folder, protected=protected) as running:
        storm = Storm(running, seed)
        await storm.run(most if protected else most * _UNTIL_STALE, _WITHIN, accidents=protected)
    return {
        "seed": seed,
        "answers": {verdict: storm.verdicts[verdict] for verdict in ("right", "stale", "wrong", "unavailable")},
        "changes": sum(cell.changes for cell in storm.cells),
        "killed": storm.accidents,
        "faults": storm.faults,
    }
