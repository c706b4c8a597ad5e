"""What becomes of a turn: claimed, run, cancelled, lost with its worker, run again or ended for good."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL
from collections import Counter
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
from tests.integration.real_parts import a_worker, until
from tests.waiting import Collected, eventually, soon

from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.streams import declare
from pallas_bus.turnlog.claims import (
    claim,
    claim_state,
    request_cancel,
    stored_outcome,
)
from pallas_bus.turnlog.feeds import follow_turns
from pallas_bus.turnlog.queue import consumer_name, queue_state, submit
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.agents import WorkerPresence
from pallas_contracts.catalog import BUCKETS, GATEWAY, STREAMS, TURN_QUEUE, TURN_REQUESTED, WORKERS
from pallas_contracts.errors import Conflict, Unavailable
from pallas_contracts.message import utc_now
from pallas_contracts.turns import CancelRequested, Claimed, Progress, Result, ToolStarted, TurnClaim
from pallas_executor import claim_turn
from pallas_executor.running import Running

EFFECT = ToolStarted(call="1", server="bench", tool="write")
OWNED = [thing for thing in (*STREAMS, *BUCKETS) if thing.owner == GATEWAY]


@pytest.fixture
async def lab(bus: Connecting, team: str, tmp_path: Path) -> AsyncGenerator[Lab]:
    """A lab without a worker yet."""
    gateway = await bus(GATEWAY)
    await declare(gateway, *OWNED)
    async with AsyncExitStack() as stack, follow_turns(gateway) as feeds:
        yield Lab(gateway, feeds, team, tmp_path / "team", stack)


async def settled(bus: Bus, team: str, agent: str = "bench") -> None:
    """Wait until no turn of the agent waits or runs."""

    async def look() -> bool:
        state = await queue_state(bus, team, agent)
        return not state.waiting and not state.running

    await until(look)


async def nobody_pulls(bus: Bus, team: str, agent: str = "bench") -> None:
    """Wait until no worker waits for turns of the agent."""

    async def look() -> bool:
        info = await bus.api(f"CONSUMER.INFO.{TURN_QUEUE.name}.{consumer_name(team, agent)}", {})
        return not info["num_waiting"]

    await until(look)


async def test_a_turn_is_claimed_run_answered_and_leaves_the_queue(lab: Lab) -> None:
    worker = await lab.worker()
    turn = await lab.ask("say", text="hello")
    outcome = await turn.outcome()
    assert (outcome.status, outcome.attempt, outcome.code) == ("completed", 1, None)
    assert turn.text == "hello (attempt 1)"
    assert [said.worker for said in turn.said if isinstance(said, Claimed)] == [worker.taking.worker]
    await settled(lab.bus, lab.team)


async def test_a_turn_that_was_submitted_twice_runs_once(lab: Lab) -> None:
    await lab.worker()
    turn = lab.follow(lab.request("say"))
    await asyncio.gather(submit(lab.bus, turn.request), submit(lab.bus, turn.request))
    await turn.outcome()
    await settled(lab.bus, lab.team)
    assert turn.attempts == [1]


async def test_a_function_that_crashes_is_a_tool_error_without_its_words(lab: Lab) -> None:
    await lab.worker()
    turn = await lab.ask("crash")
    assert (await turn.outcome()).status == "completed"
    result = next(said for said in turn.said if isinstance(said, Result))
    assert result.is_error
    assert "secret" not in turn.text


async def test_a_function_that_ends_with_a_cancellation_of_its_own_fails_once_and_is_not_run_again(lab: Lab) -> None:
    await lab.worker()
    turn = await lab.ask("give_up")
    outcome = await turn.outcome()
    assert (outcome.status, outcome.code, outcome.attempt) == ("failed", "internal", 1)
    await settled(lab.bus, lab.team)


async def test_a_turn_whose_worker_was_lost_before_any_tool_had_started_is_run_again(lab: Lab) -> None:
    turn = lab.follow(lab.request("say", text="hello"))
    lost = await lab.lose(turn.request)
    await lab.worker()
    await lost.is_found_lost()
    outcome = await turn.outcome()
    assert (outcome.status, outcome.attempt) == ("completed", 2)
    assert turn.text == "hello (attempt 2)"


async def test_a_turn_whose_worker_was_lost_after_a_tool_had_started_ends_and_names_the_tool(lab: Lab) -> None:
    turn = lab.follow(lab.request("say"))
    lost = await lab.lose(turn.request)
    await lost.writer.tool_starting(EFFECT)
    await lab.worker()
    await lost.is_found_lost()
    outcome = await turn.outcome()
    assert (outcome.status, outcome.code, outcome.attempt, outcome.retryable) == ("failed", "worker_lost", 2, False)
    assert "bench/write" in turn.text
    await settled(lab.bus, lab.team)


async def test_a_tool_that_started_at_the_last_moment_is_seen_too(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = lab.follow(lab.request("say"))
    lost = await lab.lose(turn.request)

    async def claim_behind_a_tool(bus: Bus, ref: TurnRef, claimed: Claimed, *, after: int) -> int:
        if claimed.attempt == 2:  # nothing had started when the second attempt looked
            await lost.writer.tool_starting(EFFECT)
        return await claim(bus, ref, claimed, after=after)

    monkeypatch.setattr(claim_turn, "claim", claim_behind_a_tool)
    await lab.worker()
    await lost.is_found_lost()
    outcome = await turn.outcome()
    assert (outcome.code, outcome.attempt) == ("worker_lost", 2)
    assert "bench/write" in turn.text


async def test_a_sub_agent_that_had_started_is_no_reason_not_to_run_again(lab: Lab) -> None:
    turn = lab.follow(lab.request("say"))
    lost = await lab.lose(turn.request)
    await lost.writer.tool_starting(EFFECT.model_copy(update={"leaf": False}))
    await lab.worker()
    await lost.is_found_lost()
    assert (await turn.outcome()).status == "completed"


async def test_an_agent_that_may_be_retried_is_run_again_whatever_had_started(lab: Lab) -> None:
    turn = lab.follow(lab.request("say", "sure"))
    lost = await lab.lose(turn.request)
    await lost.writer.tool_starting(EFFECT)
    await lab.worker()
    await lost.is_found_lost()
    outcome = await turn.outcome()
    assert (outcome.status, outcome.attempt) == ("completed", 2)


@pytest.mark.parametrize("stored", [True, False], ids=["it was stored", "it was lost"])
async def test_a_claim_that_is_not_confirmed_costs_no_attempt(
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
    await settled(lab.bus, lab.team)


async def test_a_cancel_behind_a_claim_that_was_not_confirmed_holds(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_a_turn_that_keeps_losing_its_worker_ends_and_may_be_retried(lab: Lab) -> None:
    lab.describe(lambda text: text.replace("title: Bench\n", "title: Bench\n    max_attempts: 2\n"))
    turn = lab.follow(lab.request("say"))
    lost = await lab.lose(turn.request, attempt=2)
    await lab.worker()
    await lost.is_found_lost()
    outcome = await turn.outcome()
    assert (outcome.status, outcome.code, outcome.retryable) == ("failed", "worker_lost", True)
    assert turn.text == "The worker was lost 2 times. The turn may be retried."


async def test_a_turn_that_was_cancelled_before_it_started_never_runs(lab: Lab) -> None:
    file = lab.file()
    turn = lab.follow(lab.request("wait", file=file))
    await request_cancel(lab.bus, turn.ref, "changed my mind")
    await submit(lab.bus, turn.request)
    await lab.worker()
    outcome = await turn.outcome()
    assert (outcome.status, outcome.code, outcome.started_at is not None) == ("cancelled", "cancelled", True)
    assert turn.attempts == []
    await settled(lab.bus, lab.team)


async def test_a_redelivered_turn_that_was_cancelled_stays_cancelled(lab: Lab) -> None:
    turn = lab.follow(lab.request("say"))
    lost = await lab.lose(turn.request)
    await request_cancel(lab.bus, turn.ref, "enough")
    await lab.worker()
    await lost.is_found_lost()
    assert (await turn.outcome()).status == "cancelled"
    assert turn.attempts == [1]


async def test_a_redelivered_turn_that_has_its_outcome_only_leaves_the_queue(lab: Lab) -> None:
    worker = await lab.worker()
    turn = await lab.ask("say")
    first = await turn.outcome()
    await settled(lab.bus, lab.team)
    # Sent past the broker's memory of ids, as a second delivery whose acknowledgement was lost would come.
    subject = TURN_REQUESTED.template.subject(team=lab.team, agent="bench", caller="somebody")
    await lab.bus.put(subject, turn.request.model_dump_json().encode())
    await settled(lab.bus, lab.team)
    assert await stored_outcome(lab.bus, turn.ref) == first
    assert isinstance((await claim_state(lab.bus, turn.ref)).claim, Claimed)
    assert worker.slots.busy == 0


async def test_a_cancel_stops_a_turn_that_runs(lab: Lab) -> None:
    await lab.worker()
    file = lab.file()
    turn = await lab.ask("wait", file=file)
    await turn.works()
    assert await request_cancel(lab.bus, turn.ref, "enough")
    outcome = await turn.outcome()
    assert (outcome.status, outcome.code) == ("cancelled", "cancelled")
    await stopped(file)
    await settled(lab.bus, lab.team)


async def test_a_cancel_right_behind_the_claim_stops_the_turn_before_it_runs(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, take_news = Collected[TurnClaim](), Running.on_claim

    def hear(running: Running, said: TurnClaim, seq: int) -> None:
        take_news(running, said, seq)
        heard.add(said)

    async def claim_and_be_cancelled(bus: Bus, ref: TurnRef, claimed: Claimed, *, after: int) -> int:
        fence = await claim(bus, ref, claimed, after=after)
        await request_cancel(lab.bus, ref, "at once")
        await heard.until(lambda said: any(isinstance(each.claim, CancelRequested) for each in said))
        return fence

    monkeypatch.setattr(Running, "on_claim", hear)
    monkeypatch.setattr(claim_turn, "claim", claim_and_be_cancelled)
    await lab.worker()
    turn = await lab.ask("wait", file=lab.file())
    assert (await turn.outcome()).status == "cancelled"
    assert not any(isinstance(said, Progress) for said in turn.said)


async def test_a_second_cancel_changes_nothing(lab: Lab) -> None:
    await lab.worker()
    turn = await lab.ask("wait", file=lab.file())
    await turn.works()
    assert await request_cancel(lab.bus, turn.ref, "enough")
    assert not await request_cancel(lab.bus, turn.ref, "and again")
    await turn.outcome()
    [reason] = [said.reason for said in turn.said if isinstance(said, CancelRequested)]
    assert reason == "enough"


async def test_a_cancelled_attempt_cannot_start_a_tool(lab: Lab) -> None:
    lost = await lab.lose(lab.request("say"))
    await request_cancel(lab.bus, lost.writer.ref, "enough")
    with pytest.raises(Conflict):
        await lost.writer.tool_starting(EFFECT)


async def test_a_superseded_attempt_stops_and_is_not_heard(lab: Lab) -> None:
    first, second = await lab.worker(), await lab.worker()
    file = lab.file()
    turn = await lab.ask("wait", file=file)
    claimed = await turn.claimed(1)
    await turn.works()
    subject = TURN_REQUESTED.template.subject(team=lab.team, agent="bench", caller="somebody")
    # The broker has given up on the worker that works: the turn is delivered to whoever is there.
    loser = first if first.taking.worker == claimed.worker else second
    winner = second if loser is first else first
    assert loser.puller is not None
    await loser.puller.stop()
    await lab.bus.put(subject, turn.request.model_dump_json().encode())
    assert (await turn.claimed(2)).worker == winner.taking.worker
    await stopped(file)
    await turn.works(attempt=2)
    file.touch()
    outcome = await turn.outcome()
    assert (outcome.attempt, turn.text) == (2, "waited in attempt 2")
    await eventually(lambda: not loser.slots.busy)


async def test_a_worker_that_drains_finishes_what_it_runs_and_takes_nothing_new(lab: Lab) -> None:
    worker = await lab.worker()
    file = lab.file()
    turn = await lab.ask("wait", file=file)
    await turn.works()
    draining = asyncio.create_task(worker.drain())
    await nobody_pulls(lab.bus, lab.team)
    later = await lab.ask("say")
    file.touch()
    assert (await turn.outcome()).status == "completed"
    await soon(draining)
    assert (await queue_state(lab.bus, lab.team, "bench")).waiting == 1
    await lab.worker()
    assert (await later.outcome()).status == "completed"


async def test_what_still_runs_at_the_end_of_a_drain_is_given_to_another_worker_at_once(lab: Lab) -> None:
    file = lab.file()
    lab.describe()
    async with a_worker(lab.bus_url, lab.folder) as going:
        turn = await lab.ask("wait", file=file)
        await turn.works()
        staying = await lab.worker()
        assert going.taking.worker != staying.taking.worker
    assert (await turn.claimed(2, within=3.0)).worker == staying.taking.worker
    await stopped(file)
    file.touch()
    assert (await turn.outcome()).attempt == 2


async def test_a_worker_ends_and_gives_back_a_turn_that_will_not_be_cancelled(
    lab: Lab, nats_url: str, tmp_path: Path
) -> None:
    file, folder = lab.file(), lab.describe()
    name = f"going-{lab.team}"
    async with a_service("agent_worker", nats_url, tmp_path, name, teams=str(folder), drain_seconds="0") as going:
        await going.ready()
        turn = await lab.ask("stay", file=file)
        await turn.works()
        staying = await lab.worker()
        going.send(signal.SIGTERM)
        try:
            assert (await turn.claimed(2)).worker == staying.taking.worker
            assert await soon(going.process.wait(), within=30.0) == 0
        finally:
            file.touch()
    assert turn.request.turn_id in going.log.read_text("utf-8")
    assert (await turn.outcome()).attempt == 2


async def test_no_more_turns_of_an_agent_run_than_it_allows_over_two_workers(lab: Lab) -> None:
    workers = [await lab.worker(), await lab.worker()]
    files = [lab.file() for _ in range(4)]
    turns = [await lab.ask("wait", "once", file=file) for file in files]
    for number, turn in enumerate(turns):
        await turn.works()
        assert sum(worker.slots.busy for worker in workers) == 1
        assert (await queue_state(lab.bus, lab.team, "once")).running == 1
        files[number].touch()
        assert (await turn.outcome()).status == "completed"


async def test_two_workers_share_the_turns_and_none_runs_twice(lab: Lab) -> None:
    await lab.worker()
    await lab.worker()
    turns = [await lab.ask("say", text=str(number)) for number in range(30)]
    outcomes = [await turn.outcome() for turn in turns]
    assert Counter(outcome.status for outcome in outcomes) == {"completed": 30}
    assert [turn.attempts for turn in turns] == [[1]] * 30


async def test_a_turn_outlives_a_restart_of_the_broker(
    nats_server: NatsServer, bus: Connecting, team: str, tmp_path: Path
) -> None:
    gateway = await bus(GATEWAY, url=nats_server.url)
    await declare(gateway, *OWNED)
    async with AsyncExitStack() as stack, follow_turns(gateway) as feeds:
        lab = Lab(gateway, feeds, team, tmp_path / "team", stack)
        await lab.worker()
        file = lab.file()
        turn = await lab.ask("wait", file=file)
        await turn.works()
        nats_server.restart(kill=True)
        file.touch()
        outcome = await turn.outcome(within=20.0)
        assert (outcome.status, outcome.attempt) == ("completed", 1)
        assert turn.text == "waited in attempt 1"


async def test_a_worker_that_is_killed_loses_its_turn_to_another_one(lab: Lab, nats_url: str, tmp_path: Path) -> None:
    file = lab.file()
    environ = {**os.environ, "PALLAS_NATS_URL": nats_url, "PALLAS_TEAMS": str(lab.describe())}
    doomed = await asyncio.create_subprocess_exec(sys.executable, "-m", "agent_worker", env=environ, stderr=DEVNULL)
    try:
        turn = await lab.ask("wait", file=file)
        await turn.works(within=30.0)
        await lab.worker()
    finally:
        doomed.kill()
        await doomed.wait()
    await turn.claimed(2, within=25.0)
    file.touch()
    outcome = await turn.outcome()
    assert (outcome.status, outcome.attempt) == ("completed", 2)


async def test_a_turn_whose_worker_may_live_is_looked_at_every_second_however_often_it_was_delivered(lab: Lab) -> None:
    lost = await lab.lose(lab.request("say"))
    await lost.writer.tool_starting(EFFECT)
    await kv.put(lab.bus, WORKERS, WorkerPresence(worker="lost", slots=1, at=utc_now()), worker="lost")
    worker = await lab.worker()
    said = Collected[bytes]()

    async def heard(message: Msg) -> None:
        said.add(message.data)

    await lab.bus.subscribe(f"settled.{lab.team}", heard)
    await worker.taking.take_turn(f"{lab.team}.bench", replace(lost.delivery, reply=f"settled.{lab.team}", delivered=5))
    assert await said.count(1) == [b'-NAK {"delay": 1000000000}']
