"""A short storm: every rule holds while every process is killed during the calls. `make chaos` has the long one."""

from pathlib import Path

import pytest
from tests.chaos.run import Options, run
from tests.seed import SEED


@pytest.mark.timeout(240)
async def test_no_turn_is_lost_and_no_effect_happens_twice_while_every_process_is_killed(tmp_path: Path) -> None:
    options = Options(seed=SEED, turns=150, seconds=30, every=1.5, longest=5.0)
    result = await run(options, tmp_path, print)
    print("seed", options.seed, "fallen", len(result.fallen))
    assert result.violations == []
    assert result.fallen
    assert len(result.evidence.accepted) > options.turns / 2
