"""The life of a turn at workers, where a test looks into their process or lets something happen at a chosen moment.

`tests/integration/worker_promises` has what every worker promises.
"""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from nats.aio.msg import Msg
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.agent_worker.lab import Lab, stopped
from tests.integration.processes import a_service
from tests.integration.real_parts import OWNED, a_worker, until
from tests.waiting import Collected, eventually, soon

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_bus.streams import declare
from pallas_contracts.agents import WorkerPresence
from pallas_contracts.catalog import GATEWAY, TURN_QUEUE, TURN_REQUESTED, WORKERS
from pallas_contracts.errors import Conflict, Unavailable
from pallas_contracts.message import utc_now
from pallas_contracts.turns import CancelRequested, Claimed, Progress, Result, ToolStarted, TurnClaim
from pallas_turns import attempts as claim_turn
from pallas_turns.claims import TurnRef, claim, claim_state, request_cancel, stored_outcome
from pallas_turns.feeds import follow_turns
from pallas_turns.queue import consumer_name, queue_state, submit
from pallas_turns.settle import Running

EFFECT = ToolStarted(call="1", server="bench", tool="write")


@pytest.fixture
async def lab(bus: Connecting, team: str, tmp_path: Path) -> AsyncGenerator[Lab]:
    """A lab without a worker yet."""
    gateway = await bus(GATEWAY)
    await declare(gateway, *OWNED)
    async with AsyncExitStack() as stack, follow_turns(gateway) as feeds:
        yield Lab(gateway, feeds, team, tmp_path / "team", stack)


async def until_queue_empty(bus: Bus, team: str, agent: str = "bench") -> None:
    """Wait until no turn of the agent waits or runs."""

    async def look() -> bool:
        state = await queue_state(bus, team, agent)
        return not state.waiting and not state.running

    await until(look)


async def until_no_worker_pulls(bus: Bus, team: str, agent: str = "bench") -> None:
    """Wait until no worker waits for turns of the agent."""

    async def look() -> bool:
        info = await bus.api(f"CONSUMER.INFO.{TURN_QUEUE.name}.{consumer_name(team, agent)}", {})
        return not info["num_waiting"]

    await until(look)


async def test_a_turn_that_was_submitted_twice_runs_once(lab: Lab) -> None:
    await lab.worker()
    turn = lab.follow(lab.request("say"))
    await asyncio.gather(submit(lab.bus, turn.request), submit(lab.bus, turn.request))
    await turn.outcome()
    await until_queue_empty(lab.bus, lab.team)
    assert turn.attempts == [1]


async def test_a_function_that_crashes_is_a_tool_error_without_its_message(lab: Lab) -> None:
    await lab.worker()
    turn = await lab.ask("crash")
    assert (await turn.outcome()).status == "completed"
    result = next(message for message in turn.messages if isinstance(message, Result))
    assert result.is_error
    assert "secret" not in turn.text


async def test_a_function_that_raises_cancelled_itself_fails_and_is_not_executed_again(lab: Lab) -> None:
    await lab.worker()
    turn = await lab.ask("give_up")
    outcome = await turn.outcome()
    assert (outcome.status, outcome.code, outcome.attempt) == ("failed", "internal", 1)
    await until_queue_empty(lab.bus, lab.team)


async def test_a_tool_started_just_before_the_next_claim_prevents_another_execution(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = lab.follow(lab.request("say"))
    lost = await lab.lose(turn.request)

    async def claim_behind_a_tool(bus: Bus, ref: TurnRef, claimed: Claimed, *, after: int) -> int:
        if claimed.attempt == 2:  # nothing had started when the second attempt looked
            await lost.writer.tool_starting(EFFECT)
        return await claim(bus, ref, claimed, after=after)

    monkeypatch.setattr(claim_turn, "claim", claim_behind_a_tool)
    await lab.worker()
    await lost.redeliver()
    outcome = await turn.outcome()
    assert (outcome.code, outcome.attempt) == ("worker_lost", 2)
    assert "bench/write" in turn.text


@pytest.mark.parametrize("stored", [True, False], ids=["it was stored", "it was lost"])
async def test_an_unconfirmed_claim_does_not_use_up_an_attempt(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, stored: bool
) -> None:
    tried: list[Claimed] = []

    async def claim_without_an_answer(bus: Bus, ref: TurnRef, claimed: Claimed, *, after: int) -> int:
        tried.append(claimed)
        if len(tried) > 1:
            return await claim(bus, ref, claimed, after=after)
        if stored:
            await claim(bus, ref, claimed, after=after)
        raise Unavailable("the connection broke while the claim was being stored")

    monkeypatch.setattr(claim_turn, "claim", claim_without_an_answer)
    await lab.worker()
    turn = await lab.ask("say")
    outcome = await turn.outcome()
    assert (outcome.status, outcome.attempt, turn.attempts) == ("completed", 1, [1])
    await until_queue_empty(lab.bus, lab.team)


async def test_a_cancel_after_an_unconfirmed_claim_is_kept(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Claimed] = []

    async def claim_and_be_cancelled(bus: Bus, ref: TurnRef, claimed: Claimed, *, after: int) -> int:
        tried.append(claimed)
        fence = await claim(bus, ref, claimed, after=after)
        if len(tried) == 1:
            await request_cancel(lab.bus, ref, "meanwhile")
            raise Unavailable("the connection broke while the claim was being stored")
        return fence

    monkeypatch.setattr(claim_turn, "claim", claim_and_be_cancelled)
    await lab.worker()
    turn = await lab.ask("say")
    assert (await turn.outcome()).status == "cancelled"


async def test_a_cancelled_turn_stays_cancelled_when_redelivered(lab: Lab) -> None:
    turn = lab.follow(lab.request("say"))
    lost = await lab.lose(turn.request)
    await request_cancel(lab.bus, turn.ref, "enough")
    await lab.worker()
    await lost.redeliver()
    assert (await turn.outcome()).status == "cancelled"
    assert turn.attempts == [1]


async def test_a_redelivered_turn_with_an_outcome_is_only_removed_from_the_queue(lab: Lab) -> None:
    worker = await lab.worker()
    turn = await lab.ask("say")
    first = await turn.outcome()
    await until_queue_empty(lab.bus, lab.team)
    # Sent without a message id, like a second delivery whose ack was lost.
    ids = {"team": lab.team, "agent": "bench", "caller": "somebody", "turn": turn.request.turn_id}
    subject = TURN_REQUESTED.template.subject(**ids)
    await lab.bus.put(subject, turn.request.model_dump_json().encode())
    await until_queue_empty(lab.bus, lab.team)
    assert await stored_outcome(lab.bus, turn.ref) == first
    assert isinstance((await claim_state(lab.bus, turn.ref)).claim, Claimed)
    assert worker.slots.busy == 0


async def test_a_cancel_right_after_the_claim_stops_the_turn_before_it_is_executed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims, original = Collected[TurnClaim](), Running.on_claim

    def on_claim(running: Running, claim_message: TurnClaim, seq: int) -> None:
        original(running, claim_message, seq)
        claims.add(claim_message)

    async def claim_and_be_cancelled(bus: Bus, ref: TurnRef, claimed: Claimed, *, after: int) -> int:
        fence = await claim(bus, ref, claimed, after=after)
        await request_cancel(lab.bus, ref, "at once")
        await claims.until(lambda seen: any(isinstance(each.claim, CancelRequested) for each in seen))
        return fence

    monkeypatch.setattr(Running, "on_claim", on_claim)
    monkeypatch.setattr(claim_turn, "claim", claim_and_be_cancelled)
    await lab.worker()
    turn = await lab.ask("wait", file=lab.file())
    assert (await turn.outcome()).status == "cancelled"
    assert not any(isinstance(message, Progress) for message in turn.messages)


async def test_a_cancelled_attempt_cannot_start_a_tool(lab: Lab) -> None:
    lost = await lab.lose(lab.request("say"))
    await request_cancel(lab.bus, lost.writer.ref, "enough")
    with pytest.raises(Conflict):
        await lost.writer.tool_starting(EFFECT)


async def test_a_superseded_attempt_stops_and_its_events_are_ignored(lab: Lab) -> None:
    first, second = await lab.worker(), await lab.worker()
    file = lab.file()
    turn = await lab.ask("wait", file=file)
    claimed = await turn.claimed(1)
    await turn.until_waiting()
    ids = {"team": lab.team, "agent": "bench", "caller": "somebody", "turn": turn.request.turn_id}
    subject = TURN_REQUESTED.template.subject(**ids)
    # As if the broker's timeout for the first worker had passed: the turn is delivered again.
    loser = first if first.decoding.turns.worker == claimed.worker else second
    winner = second if loser is first else first
    assert loser.puller is not None
    await loser.puller.stop()
    await lab.bus.put(subject, turn.request.model_dump_json().encode())
    assert (await turn.claimed(2)).worker == winner.decoding.turns.worker
    await stopped(file)
    await turn.until_waiting(attempt=2)
    file.touch()
    outcome = await turn.outcome()
    assert (outcome.attempt, turn.text) == (2, "waited in attempt 2")
    await eventually(lambda: not loser.slots.busy)


async def test_a_draining_worker_finishes_its_turns_and_takes_no_new_ones(lab: Lab) -> None:
    worker = await lab.worker()
    file = lab.file()
    turn = await lab.ask("wait", file=file)
    await turn.until_waiting()
    draining = asyncio.create_task(worker.drain())
    await until_no_worker_pulls(lab.bus, lab.team)
    later = await lab.ask("say")
    file.touch()
    assert (await turn.outcome()).status == "completed"
    await soon(draining)
    assert (await queue_state(lab.bus, lab.team, "bench")).waiting == 1
    await lab.worker()
    assert (await later.outcome()).status == "completed"


async def test_turns_still_running_after_a_drain_go_to_another_worker_at_once(lab: Lab) -> None:
    file = lab.file()
    lab.describe()
    async with a_worker(lab.bus_url, lab.folder) as going:
        turn = await lab.ask("wait", file=file)
        await turn.until_waiting()
        staying = await lab.worker()
        assert going.decoding.turns.worker != staying.decoding.turns.worker
    assert (await turn.claimed(2, within=3.0)).worker == staying.decoding.turns.worker
    await stopped(file)
    file.touch()
    assert (await turn.outcome()).attempt == 2


async def test_a_worker_ends_and_gives_back_a_turn_that_ignores_its_cancellation(
    lab: Lab, nats_url: str, tmp_path: Path
) -> None:
    file, folder = lab.file(), lab.describe()
    name = f"going-{lab.team}"
    async with a_service("agent_worker", nats_url, tmp_path, name, teams=str(folder), drain_seconds="0") as going:
        await going.ready()
        turn = await lab.ask("stay", file=file)
        await turn.until_waiting()
        staying = await lab.worker()
        going.send(signal.SIGTERM)
        try:
            assert (await turn.claimed(2)).worker == staying.decoding.turns.worker
            assert await soon(going.process.wait(), within=30.0) == 0
        finally:
            file.touch()
    assert turn.request.turn_id in going.log.read_text("utf-8")
    assert (await turn.outcome()).attempt == 2


async def test_a_running_turn_survives_a_restart_of_the_broker(
    nats_server: NatsServer, bus: Connecting, team: str, tmp_path: Path
) -> None:
    gateway = await bus(GATEWAY, url=nats_server.url)
    await declare(gateway, *OWNED)
    async with AsyncExitStack() as stack, follow_turns(gateway) as feeds:
        lab = Lab(gateway, feeds, team, tmp_path / "team", stack)
        await lab.worker()
        file = lab.file()
        turn = await lab.ask("wait", file=file)
        await turn.until_waiting()
        nats_server.restart(kill=True)
        file.touch()
        outcome = await turn.outcome(within=20.0)
        assert (outcome.status, outcome.attempt) == ("completed", 1)
        assert turn.text == "waited in attempt 1"


async def test_the_turn_of_a_killed_worker_is_executed_by_another(
    lab: Lab, nats_url: str, tmp_path: Path, soon_redelivered: None
) -> None:
    file = lab.file()
    environ = {**os.environ, "PALLAS_NATS_URL": nats_url, "PALLAS_TEAMS": str(lab.describe())}
    doomed = await asyncio.create_subprocess_exec(sys.executable, "-m", "agent_worker", env=environ, stderr=DEVNULL)
    try:
        turn = await lab.ask("wait", file=file)
        await turn.until_waiting(within=30.0)
        await lab.worker()
    finally:
        doomed.kill()
        await doomed.wait()
    await turn.claimed(2, within=25.0)
    file.touch()
    outcome = await turn.outcome()
    assert (outcome.status, outcome.attempt) == ("completed", 2)


async def test_a_turn_whose_worker_may_still_run_is_redelivered_every_second(lab: Lab) -> None:
    lost = await lab.lose(lab.request("say"))
    await lost.writer.tool_starting(EFFECT)
    await kv.put(lab.bus, WORKERS, WorkerPresence(worker="lost", slots=1, at=utc_now()), worker="lost")
    worker = await lab.worker()
    replies = Collected[bytes]()

    async def on_message(message: Msg) -> None:
        replies.add(message.data)

    await lab.bus.subscribe(f"settled.{lab.team}", on_message)
    await worker.decoding.take(f"{lab.team}.bench", replace(lost.delivery, reply=f"settled.{lab.team}", delivered=5))
    assert await replies.count(1) == [b'-NAK {"delay": 1000000000}']
