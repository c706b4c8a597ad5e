"""What every worker promises, whatever runtime executes its agents: the same tests for each runtime.

The workers are processes. The last test ends one of each.
"""

import signal
from collections import Counter
from collections.abc import AsyncGenerator
from itertools import pairwise

import pytest
from nats.aio.msg import Msg
from tests.integration.bus.turns import attempt_of
from tests.integration.processes import Service
from tests.integration.real_parts import until
from tests.integration.worker_promises.stage import KINDS, PYTHONS, TEAM, Stage, a_stage
from tests.waiting import Collected, soon

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_contracts.catalog import TURN_REQUESTED, WORKERS
from pallas_contracts.costs import Allowance
from pallas_contracts.turns import CancelRequested, Claimed, ModelCalled, ToolCompleted, ToolProgress, ToolStarted
from pallas_turns.claims import claim_state, request_cancel, stored_outcome
from pallas_turns.queue import nak, queue_state, submit

EFFECT = ToolStarted(call="1.1", server="bench", tool="effect")
NOT_INSTALLED = "the packages of fast-agent cannot be installed here"
RUNTIMES = [(worker, kind) for worker, kinds in KINDS.items() for kind in kinds]
WORKERS_HERE = [
    pytest.param(worker, marks=pytest.mark.skipif(worker not in PYTHONS, reason=NOT_INSTALLED)) for worker in KINDS
]


def is_of(claimant: str, worker: Service) -> bool:
    """Whether a claim is of this worker, or of the process that it has for a program."""
    return claimant == worker.instance or claimant.startswith(f"{worker.instance}-")


@pytest.fixture(scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Stage]:
    async with a_stage(tmp_path_factory.mktemp("promises")) as running:
        yield running


@pytest.fixture(params=RUNTIMES, ids=lambda it: it[1])
def kind(request: pytest.FixtureRequest) -> str:
    """The name of an agent, which is that of its runtime."""
    worker, name = request.param
    if worker not in PYTHONS:
        pytest.skip(NOT_INSTALLED)
    return name


async def until_queue_empty(bus: Bus, agent: str) -> None:
    """Wait until no turn of the agent waits or runs."""

    async def look() -> bool:
        state = await queue_state(bus, TEAM, agent)
        return not state.waiting and not state.running

    await until(look)


async def test_a_turn_is_claimed_executed_answered_and_removed_from_the_queue(stage: Stage, kind: str) -> None:
    stage.bench.open(f"{kind} once")
    turn = await stage.ask(kind, ("wait", {"key": f"{kind} once"}), ("effect", {"key": f"{kind} once"}))
    outcome = await turn.outcome()
    assert (outcome.status, outcome.attempt, outcome.code) == ("completed", 1, None)
    assert turn.text.endswith("done")
    [claimed] = [it.worker for it in turn.messages if isinstance(it, Claimed)]
    assert any(is_of(claimed, worker) for each in stage.workers.values() for worker in each)
    await until_queue_empty(stage.bus, kind)
    started = [(it.server, it.tool) for it in turn.messages if isinstance(it, ToolStarted) and it.leaf]
    assert started == [("bench", "wait"), ("bench", "effect")]
    completed = [it.tool for it in turn.messages if isinstance(it, ToolCompleted) and it.server == "bench"]
    assert completed == ["wait", "effect"]
    assert stage.bench.effects[f"{kind} once"] == 1


async def test_the_progress_of_a_tool_is_reported_while_it_runs(stage: Stage, kind: str) -> None:
    turn = await stage.ask(kind, ("wait", {"key": f"{kind} progress"}))
    assert (await turn.until(ToolProgress)).message == f"waiting for {kind} progress"
    stage.bench.open(f"{kind} progress")
    assert (await turn.outcome()).status == "completed"


async def test_two_workers_share_the_turns_and_execute_each_once(stage: Stage, kind: str) -> None:
    keys = [f"{kind} {number}" for number in range(10)]
    turns = [await stage.ask(kind, ("effect", {"key": key})) for key in keys]
    assert Counter([(await turn.outcome()).status for turn in turns]) == {"completed": 10}
    assert [turn.attempts for turn in turns] == [[1]] * 10
    assert [stage.bench.effects[key] for key in keys] == [1] * 10


async def test_a_redelivered_turn_with_an_outcome_is_only_removed_from_the_queue(stage: Stage, kind: str) -> None:
    turn = await stage.ask(kind, ("effect", {"key": f"{kind} again"}))
    first = await turn.outcome()
    await until_queue_empty(stage.bus, kind)
    # Sent without a message id, like a second delivery whose ack was lost.
    ids = {"team": TEAM, "agent": kind, "caller": "somebody", "turn": turn.request.turn_id}
    await stage.bus.put(TURN_REQUESTED.template.subject(**ids), turn.request.model_dump_json().encode())
    await until_queue_empty(stage.bus, kind)
    assert await stored_outcome(stage.bus, turn.ref) == first
    assert stage.bench.effects[f"{kind} again"] == 1


async def test_a_worker_says_what_it_runs_and_keeps_its_delivery(stage: Stage, kind: str) -> None:
    turn = await stage.ask(kind, ("wait", {"key": f"{kind} heartbeat"}))
    claimed = await turn.claimed(1)
    kept = Collected[bytes]()

    async def on_ack(message: Msg) -> None:
        kept.add(message.data)

    assert claimed.delivery is not None
    subscription = await stage.bus.subscribe(claimed.delivery, on_ack)
    assert await kept.count(1) == [b"+WPI"]
    await subscription.unsubscribe()

    async def busy() -> bool:
        presence = await kv.get(stage.bus, WORKERS, worker=claimed.worker)
        return presence is not None and presence.busy == 1 and f"{TEAM}.{kind}" in presence.agents

    await until(busy)
    stage.bench.open(f"{kind} heartbeat")
    assert (await turn.outcome()).status == "completed"


async def test_a_cancel_stops_a_running_turn_and_its_tool(stage: Stage, kind: str) -> None:
    key = f"{kind} cancelled"
    turn = await stage.ask(kind, ("wait", {"key": key}), ("effect", {"key": key}))
    await stage.bench.until(f"{key} waits")
    assert await request_cancel(stage.bus, turn.ref, "enough")
    assert not await request_cancel(stage.bus, turn.ref, "and again")
    outcome = await turn.outcome()
    assert (outcome.status, outcome.code) == ("cancelled", "cancelled")
    assert [it.reason for it in turn.messages if isinstance(it, CancelRequested)] == ["enough"]
    await stage.bench.until(f"{key} is cancelled")
    await until_queue_empty(stage.bus, kind)
    assert stage.bench.effects[key] == 0


async def test_a_turn_that_is_cancelled_before_it_starts_is_never_executed(stage: Stage, kind: str) -> None:
    turn = stage.follow(stage.request(kind, ("effect", {"key": f"{kind} never"})))
    await request_cancel(stage.bus, turn.ref, "changed my mind")
    await submit(stage.bus, turn.request)
    outcome = await turn.outcome()
    assert (outcome.status, outcome.code, outcome.started_at is not None) == ("cancelled", "cancelled", True)
    assert turn.attempts == []
    await until_queue_empty(stage.bus, kind)
    assert stage.bench.effects[f"{kind} never"] == 0


async def test_a_superseded_attempt_starts_no_tool_and_the_turn_goes_on_elsewhere(stage: Stage, kind: str) -> None:
    key = f"{kind} superseded"
    turn = await stage.ask(kind, ("wait", {"key": key}), ("effect", {"key": key}))
    claimed = await turn.claimed(1)
    await stage.bench.until(f"{key} waits")
    # As if the first worker had been silent for too long, and a second one were lost as well.
    await attempt_of(stage.bus, turn.request, 2, after=(await claim_state(stage.bus, turn.ref)).seq)
    await stage.bench.until(f"{key} is cancelled")
    assert claimed.delivery is not None
    await nak(stage.bus, claimed.delivery)
    await stage.bench.until(f"{key} waits", times=2)
    stage.bench.open(key)
    outcome = await turn.outcome()
    assert (outcome.status, outcome.attempt) == ("completed", 3)
    assert stage.bench.effects[key] == 1


@pytest.mark.parametrize(
    "update", [None, {"safe": True}, {"leaf": False}], ids=["nothing", "a safe tool", "a sub-agent"]
)
async def test_the_turn_of_a_lost_worker_is_executed_again(
    stage: Stage, kind: str, update: dict[str, bool] | None
) -> None:
    turn = stage.follow(stage.request(kind, ("effect", {"key": f"{kind} lost"})))
    lost = await stage.lose(turn)
    if update is not None:
        await lost.tool_starting(EFFECT.model_copy(update=update))
    await submit(stage.bus, turn.request)
    outcome = await turn.outcome()
    assert (outcome.status, outcome.attempt) == ("completed", 2)


async def test_each_attempt_has_the_history_of_the_request(stage: Stage, kind: str) -> None:
    request = stage.request(kind)
    history = [{"role": "user", "content": "said before"}]
    turn = stage.follow(request.model_copy(update={"arguments": {**request.arguments, "history": history}}))
    await stage.lose(turn)
    await submit(stage.bus, turn.request)
    outcome = await turn.outcome()
    assert (outcome.status, outcome.attempt) == ("completed", 2)
    assert "said before" in turn.text


async def test_the_turn_of_a_lost_worker_ends_if_a_tool_may_have_had_an_effect(stage: Stage, kind: str) -> None:
    key = f"{kind} unknown"
    turn = stage.follow(stage.request(kind, ("effect", {"key": key})))
    lost = await stage.lose(turn)
    await lost.tool_starting(EFFECT)
    await submit(stage.bus, turn.request)
    outcome = await turn.outcome()
    assert (outcome.status, outcome.code, outcome.attempt, outcome.retryable) == ("failed", "worker_lost", 2, False)
    assert "bench/effect" in turn.text
    await until_queue_empty(stage.bus, kind)
    assert stage.bench.effects[key] == 0


async def test_a_turn_that_keeps_losing_its_worker_fails_as_retryable(stage: Stage, kind: str) -> None:
    turn = stage.follow(stage.request(f"{kind}-brief", ("effect", {"key": "kept losing"})))
    await stage.lose(turn, attempt=2)
    await submit(stage.bus, turn.request)
    outcome = await turn.outcome()
    assert (outcome.status, outcome.code, outcome.retryable) == ("failed", "worker_lost", True)
    assert turn.text == "The worker was lost 2 times. The turn may be retried."


async def test_a_turn_ends_after_its_time_limit_and_its_tool_is_cancelled(stage: Stage, kind: str) -> None:
    turn = await stage.ask(f"{kind}-brief", ("wait", {"key": f"{kind} late"}))
    assert (await turn.outcome()).code == "turn_timeout"
    await stage.bench.until(f"{kind} late is cancelled")


@pytest.mark.parametrize("kind", [it for it in RUNTIMES if it[1] != "function"], ids=lambda it: it[1], indirect=True)
async def test_a_turn_without_anything_left_of_a_budget_calls_no_model(stage: Stage, kind: str) -> None:
    request = stage.request(kind)
    turn = stage.follow(request.model_copy(update={"allowance": Allowance(tokens=0)}))
    await submit(stage.bus, turn.request)
    assert (await turn.outcome()).code == "budget_exhausted"
    assert [it for it in turn.messages if isinstance(it, ModelCalled)] == []


async def test_max_concurrency_holds_over_all_workers(stage: Stage, kind: str) -> None:
    turns = [await stage.ask(f"{kind}-brief", ("effect", {"key": f"{kind} one"})) for _ in range(4)]
    outcomes = sorted([await turn.outcome() for turn in turns], key=lambda outcome: outcome.ended_at)
    assert {outcome.status for outcome in outcomes} == {"completed"}
    for before, after in pairwise(outcomes):
        assert after.started_at is not None
        assert before.ended_at <= after.started_at


async def test_a_message_that_cannot_be_read_ends_its_turn_and_the_next_one_runs(stage: Stage, kind: str) -> None:
    turn = stage.follow(stage.request(kind))
    ids = {"team": TEAM, "agent": kind, "caller": "somebody", "turn": turn.request.turn_id}
    identified = {"Nats-Msg-Id": f"{TURN_REQUESTED.name}:{turn.request.turn_id}"}
    await stage.bus.put(TURN_REQUESTED.template.subject(**ids), b'{"team": 7}', identified)
    assert (await turn.outcome()).code == "undecodable"
    assert (await (await stage.ask(kind, ("effect", {"key": "next"}))).outcome()).status == "completed"


@pytest.mark.parametrize("worker", WORKERS_HERE)
async def test_a_worker_that_drains_loses_no_turn_and_does_nothing_twice(stage: Stage, worker: str) -> None:
    keys = [f"{kind} {number}" for kind in KINDS[worker] for number in ("first", "second", "third")]
    turns = {key: await stage.ask(key.split()[0], ("wait", {"key": key}), ("effect", {"key": key})) for key in keys}
    claimed = {key: (await turn.claimed(1)).worker for key, turn in turns.items()}
    for key in keys:
        await stage.bench.until(f"{key} waits")
    [(busiest, _)] = Counter(claimed.values()).most_common(1)
    [going] = [each for each in stage.workers[worker] if is_of(busiest, each)]
    staying = next(each for each in stage.workers[worker] if each is not going)
    at_step, outlasting, *_ = [key for key in keys if claimed[key] == busiest]
    others = [key for key in keys if key not in (at_step, outlasting)]

    going.send(signal.SIGTERM)
    await going.not_ready()
    for key in (at_step, *others):
        stage.bench.open(key)
    again = await turns[at_step].claimed(2)
    assert (is_of(again.worker, staying), again.continues) == (True, True)
    assert is_of((await turns[outlasting].claimed(2)).worker, staying)
    assert await soon(going.process.wait()) == 0
    stage.bench.open(outlasting)
    for key, turn in turns.items():
        assert (await turn.outcome()).status == "completed"
        assert stage.bench.effects[key] == 1
    assert stage.bench.happened.items.count(f"{at_step} waits") == 1
    assert stage.bench.happened.items.count(f"{outlasting} waits") == 2
