"""The metrics of workers: each turn counts once, whichever worker ends it, and attempts count when they begin."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.conftest import Connecting
from tests.integration.agent_worker.lab import Lab
from tests.waiting import eventually

from pallas_bus.streams import declare
from pallas_contracts.catalog import BUCKETS, GATEWAY, STREAMS
from pallas_turns.claims import request_cancel
from pallas_turns.feeds import follow_turns


@pytest.fixture
async def lab(bus: Connecting, team: str, tmp_path: Path) -> AsyncGenerator[Lab]:
    """A lab without a worker yet."""
    gateway = await bus(GATEWAY)
    await declare(gateway, *(thing for thing in (*STREAMS, *BUCKETS) if thing.owner == GATEWAY))
    async with AsyncExitStack() as stack, follow_turns(gateway) as feeds:
        yield Lab(gateway, feeds, team, tmp_path / "team", stack)


def outcomes(lab: Lab) -> dict[str, float]:
    """The number of turns that the workers have counted, by outcome."""
    names = ("completed", "failed", "cancelled", "input_required")
    counted = {name: lab.counted("pallas_turns_total", outcome=name) for name in names}
    return {name: number for name, number in counted.items() if number}


async def counted(lab: Lab, **wanted: float) -> None:
    """Wait until exactly these turns are counted. A worker counts just after it has written the outcome."""
    await eventually(lambda: outcomes(lab) == wanted)


async def test_a_turn_that_completes_is_counted_once_with_its_wait_and_its_duration(lab: Lab) -> None:
    await lab.worker()
    await lab.worker()
    await (await lab.ask("say")).outcome()
    await counted(lab, completed=1)
    assert lab.counted("pallas_turn_attempts_total", attempt="first") == 1
    assert lab.counted("pallas_turn_duration_seconds_count") == 1
    waited, took = lab.counted("pallas_turn_queue_wait_seconds_sum"), lab.counted("pallas_turn_duration_seconds_sum")
    assert 0 < waited < took


async def test_a_turn_executed_twice_is_counted_as_two_attempts_and_one_turn(lab: Lab) -> None:
    turn = lab.follow(lab.request("say"))
    lost = await lab.lose(turn.request)
    await lab.worker()
    await lost.redeliver()
    await turn.outcome()
    await counted(lab, completed=1)
    assert lab.counted("pallas_turn_attempts_total", attempt="again") == 1
    assert lab.counted("pallas_turn_attempts_total", attempt="first") == 0
    assert lab.counted("pallas_turn_queue_wait_seconds_count") == 0


async def test_a_cancelled_turn_is_counted_by_the_worker_that_ends_it(lab: Lab) -> None:
    turn = await lab.ask("say")
    await request_cancel(lab.bus, turn.ref, "enough")
    await lab.worker()
    await turn.outcome()
    await counted(lab, cancelled=1)
    assert lab.counted("pallas_turn_attempts_total", attempt="first") == 0


async def test_the_metrics_of_an_agent_removed_from_its_folder_disappear(lab: Lab) -> None:
    folder = lab.describe()
    await lab.worker()
    await (await lab.ask("say")).outcome()
    await counted(lab, completed=1)
    metrics = lab.processes[0].probes.metrics
    own = {"team": lab.team, "agent": "bench", "outcome": "completed"}
    assert metrics.get_sample_value("pallas_turns_total", own) == 1
    described = folder / "agents.yaml"
    described.write_text(described.read_text("utf-8").replace("  bench:", "  another:"), "utf-8")
    await eventually(lambda: metrics.get_sample_value("pallas_turns_total", own | {"agent": "another"}) == 0)
    assert metrics.get_sample_value("pallas_turns_total", own) is None
