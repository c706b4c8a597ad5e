"""No look-up that begins after a confirmed change gets an older answer, whichever process is killed meanwhile.

That the storm finds stale answers of services without their protection is shown by `make bench ARGS="--only stale"`.
"""

import os
from pathlib import Path

import pytest
from tests.integration.stale.parts import parts
from tests.integration.stale.storm import Storm
from tests.requirements import requirement
from tests.seed import SEED

INTERLEAVED = int(os.environ.get("PALLAS_TEST_LOOKUPS", "5000"))
"""Changes and look-ups. `make chaos` asks for twice as many."""


@requirement("A-14.3.3")
@pytest.mark.timeout(300)
async def test_no_answer_is_older_than_a_confirmed_change_while_any_process_is_killed(tmp_path: Path) -> None:
    async with parts(tmp_path) as running:
        storm = Storm(running, SEED)
        await storm.run(INTERLEAVED, 240, accidents=True)
    assert storm.faults == [], f"seed {SEED}, {storm.verdicts}, {storm.accidents}"
    assert len(storm.accidents) == 6
    assert storm.interleaved >= INTERLEAVED
    assert storm.changes > INTERLEAVED / 100
    print(storm.verdicts, storm.changes, storm.accidents)
