"""A worker that is paused for longer than every timeout, and then resumed."""

import signal
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.conftest import Connecting
from tests.integration.agent_worker.lab import Followed, Lab
from tests.integration.processes import a_service
from tests.integration.real_parts import until

from pallas_bus import kv
from pallas_bus.reads import read
from pallas_bus.streams import declare
from pallas_contracts.catalog import BUCKETS, GATEWAY, STREAMS, TURN_LOG, WORKERS
from pallas_contracts.turns import Claimed, Progress, TurnOutcome
from pallas_turns.feeds import follow_turns
from pallas_turns.queue import ensure_consumer

REDELIVERED_WITHIN = 45.0
"""Seconds: the broker waits for the ack, and may deliver once more to the paused worker."""

WORKS = {1: "waiting in attempt 1", 2: "waiting in attempt 2"}
"""The progress message of a tool that begins to wait, by attempt."""


@pytest.fixture
async def lab(bus: Connecting, team: str, tmp_path: Path) -> AsyncGenerator[Lab]:
    """A lab without a gateway that would notice a silent worker, so that only the broker's timeout applies."""
    gateway = await bus(GATEWAY)
    await declare(gateway, *(thing for thing in (*STREAMS, *BUCKETS) if thing.owner == GATEWAY))
    async with AsyncExitStack() as stack, follow_turns(gateway) as feeds:
        yield Lab(gateway, feeds, team, tmp_path / "team", stack)


async def shorten_ack_wait(lab: Lab) -> None:
    """Let the broker deliver unsettled turns again as soon as this process says, and not as the workers have said."""
    for agent in ("bench", "sure"):
        await ensure_consumer(lab.bus, lab.team, agent, max_concurrency=None)


async def outcomes(lab: Lab, turn: Followed) -> list[TurnOutcome]:
    """All outcomes of a turn in the log."""
    found = [record async for record in read(lab.bus, TURN_LOG.name, turn.ref.everything)]
    return [TurnOutcome.model_validate_json(each.data) for each in found if ".outcome." in each.subject]


async def claims_and_progress(lab: Lab, turn: Followed) -> list[str | None]:
    """The claims and progress messages of a turn from its beginning, in order."""
    feed = await lab.feeds.resume(turn.ref)
    messages = [each async for each in feed if isinstance(each, Claimed | Progress)]
    return [f"claim {each.attempt}" if isinstance(each, Claimed) else each.message for each in messages]


def effects(file: Path) -> Counter[str]:
    """How often the tool had its effect in each attempt."""
    found = file.with_suffix(".effects")
    return Counter(found.read_text("utf-8").split() if found.exists() else ())


async def test_a_worker_resumed_after_a_long_pause_has_no_effect_on_old_turns_and_takes_new_ones(
    lab: Lab, nats_url: str, tmp_path: Path, soon_redelivered: None
) -> None:
    folder, files = lab.describe(), [lab.file() for _ in range(3)]
    async with AsyncExitStack() as stack:
        stopped = await stack.enter_async_context(
            a_service("agent_worker", nats_url, tmp_path, f"stopped-{lab.team}", teams=str(folder))
        )
        await stopped.ready()
        untouched = await lab.ask("late_effect", file=files[0])
        unsafe = await lab.ask("effect", file=files[1])
        safe = await lab.ask("effect", "sure", file=files[2])
        turns = (untouched, unsafe, safe)
        for turn in turns:
            await turn.until_waiting()
        await shorten_ack_wait(lab)
        stopped.send(signal.SIGSTOP)

        other = await lab.stack.enter_async_context(
            a_service("agent_worker", nats_url, tmp_path, f"other-{lab.team}", teams=str(folder))
        )
        await other.ready()
        await shorten_ack_wait(lab)
        for turn in (untouched, safe):
            assert (await turn.claimed(2, REDELIVERED_WITHIN)).worker == other.instance
            await turn.until_waiting(2)
        files[0].touch()
        files[2].touch()
        for turn in (untouched, safe):
            outcome = await turn.outcome()
            assert (outcome.status, outcome.attempt) == ("completed", 2)

        async def counts_as_dead() -> bool:
            return await kv.get(lab.bus, WORKERS, worker=stopped.instance) is None

        outcome = await unsafe.outcome(REDELIVERED_WITHIN)
        assert (outcome.code, outcome.attempt) == ("worker_lost", 2)
        assert "bench/write had started" in unsafe.text
        await until(counts_as_dead)
        before = [await outcomes(lab, turn) for turn in turns]

        stopped.send(signal.SIGCONT)
        other.process.kill()
        await other.process.wait()
        again = await lab.ask("say", text="well again")
        assert (await again.outcome(REDELIVERED_WITHIN)).status == "completed"
        claims = [message for message in again.messages if isinstance(message, Claimed)]
        assert claims[-1].worker == stopped.instance

        async def presence_tells_of_no_turn() -> bool:
            presence = await kv.get(lab.bus, WORKERS, worker=stopped.instance)
            return presence is not None and presence.busy == 0

        await until(presence_tells_of_no_turn)
        assert [await outcomes(lab, turn) for turn in turns] == before
        assert [len(found) for found in before] == [1, 1, 1]
        for turn in (untouched, safe):
            assert await claims_and_progress(lab, turn) == ["claim 1", WORKS[1], "claim 2", WORKS[2]]
        assert await claims_and_progress(lab, unsafe) == ["claim 1", WORKS[1], "claim 2"]
        assert effects(files[0]) == {"2": 1}
        assert effects(files[1]) == {"1": 1}
        assert effects(files[2]) == {"1": 1, "2": 1}
