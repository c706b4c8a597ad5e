"""A short storm over the fleet: `make chaos ARGS=--fleet` has the long one."""

from pathlib import Path

import pytest
from tests.chaos.fleet_storm import FleetOptions, run_fleet
from tests.seed import SEED


@pytest.mark.timeout(240)
async def test_every_prompt_is_typed_once_while_replicas_are_killed(tmp_path: Path) -> None:
    result = await run_fleet(FleetOptions(SEED, agents=10, tasks=20, every=2.0, away=2.0), tmp_path, print)
    print("seed", SEED, result)
    assert result.violations == ()
    assert result.kills > 1
