"""No look-up that begins after a change was confirmed is answered by what was before, whatever is killed meanwhile.

That this is not so by itself is shown first: the same storm, over services without their protection.
"""

import os
import random
from pathlib import Path

import pytest
from tests.integration.stale.parts import parts
from tests.integration.stale.storm import Storm
from tests.requirements import requirement

INTERLEAVED = 10_000
"""Changes and look-ups with protection."""

BY_THEN = 100_000
"""Changes and look-ups until the first stale answer without it: usually some thousands, and chance."""


@pytest.fixture
def seed() -> int:
    """What the storm is made of: PALLAS_TEST_SEED, or another one each time."""
    seed = int(os.environ.get("PALLAS_TEST_SEED") or random.randrange(10**6))
    print(f"PALLAS_TEST_SEED={seed}")
    return seed


@pytest.mark.timeout(300)
async def test_without_protection_look_ups_are_answered_by_what_was_before(tmp_path: Path, seed: int) -> None:
    async with parts(tmp_path, protect=False) as running:
        storm = Storm(running, seed)
        await storm.run(BY_THEN, 240, accidents=False)
    assert storm.verdicts["stale"] > 0, storm.verdicts
    assert storm.verdicts["wrong"] == 0, storm.faults


@requirement("A-14.3.3")
@pytest.mark.timeout(300)
async def test_with_protection_none_is_though_everything_is_killed_in_between(tmp_path: Path, seed: int) -> None:
    async with parts(tmp_path, protect=True) as running:
        storm = Storm(running, seed)
        await storm.run(INTERLEAVED, 240, accidents=True)
    assert storm.faults == [], f"seed {seed}, {storm.verdicts}, {storm.accidents}"
    assert len(storm.accidents) == 6
    assert storm.interleaved >= INTERLEAVED
    assert storm.changes > INTERLEAVED / 100
    print(storm.verdicts, storm.changes, storm.accidents)
