"""A message that no worker can handle is kept with the reason, and its caller gets an error."""

import base64
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.conftest import Connecting
from tests.integration.agent_worker.lab import Followed, Lab
from tests.integration.bus.turns import TOOL
from tests.integration.real_parts import until

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_bus.streams import declare
from pallas_contracts.agents import WorkerPresence
from pallas_contracts.catalog import BUCKETS, GATEWAY, STREAMS, TURN_REQUESTED, WORKERS
from pallas_contracts.errors import Unavailable
from pallas_contracts.ids import new_turn_id
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Answered, CancelRequested, DeadLetter
from pallas_turns import decode as decode_turn
from pallas_turns.attempts import Claimant, Verdict, claim_to_end
from pallas_turns.claims import request_cancel, stored_outcome
from pallas_turns.dead_letters import read_letter, read_letters
from pallas_turns.feeds import follow_turns
from pallas_turns.queue import Delivery, queue_state
from pallas_turns.runtime import Failed

BODY = b'{"team": "studio", "arguments": "a secret"}'


@pytest.fixture
async def lab(bus: Connecting, team: str, tmp_path: Path) -> AsyncGenerator[Lab]:
    """A lab without a worker yet."""
    gateway = await bus(GATEWAY)
    await declare(gateway, *(thing for thing in (*STREAMS, *BUCKETS) if thing.owner == GATEWAY))
    async with AsyncExitStack() as stack, follow_turns(gateway) as feeds:
        await gateway.client.flush()
        yield Lab(gateway, feeds, team, tmp_path / "team", stack)


async def put(lab: Lab, body: bytes, turn_id: str | None = None) -> str:
    """Put a message into the queue of the bench. Returns its subject."""
    ids = {"team": lab.team, "agent": "bench", "caller": "somebody", "turn": turn_id or new_turn_id()}
    subject = TURN_REQUESTED.template.subject(**ids)
    await lab.bus.put(subject, body, {"Nats-Msg-Id": f"turn.requested:{turn_id}"} if turn_id else None)
    return subject


async def turn_with_body(lab: Lab, body: bytes = BODY) -> Followed:
    """A turn with the message `body`, which a caller follows."""
    turn = lab.follow(lab.request("say"))
    await put(lab, body, turn.request.turn_id)
    return turn


async def until_queue_empty(bus: Bus, team: str) -> None:
    """Wait until no message of the bench waits or is held."""

    async def look() -> bool:
        state = await queue_state(bus, team, "bench")
        return not state.waiting and not state.running

    await until(look)


async def until_letter_kept(lab: Lab) -> None:
    """Wait until the broker counts the dead letter, which may be later than its confirmation."""

    async def look() -> bool:
        return bool(await letters(lab))

    await until(look)


async def letters(lab: Lab) -> list[DeadLetter]:
    """The team's letters."""
    return [each.letter for each in await read_letters(lab.bus, since=utc_now() - timedelta(hours=1), team=lab.team)]


async def test_an_unreadable_message_is_kept_and_its_caller_gets_an_error(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    await lab.worker()
    turn = await turn_with_body(lab)
    outcome = await turn.outcome()
    assert (outcome.status, outcome.code, outcome.attempt, outcome.retryable) == ("failed", "undecodable", 1, False)
    assert turn.text == "The turn's message could not be read; it is kept as a dead letter."
    await until_queue_empty(lab.bus, lab.team)
    [letter] = await letters(lab)
    assert (letter.letter, letter.turn_id, letter.agent) == (turn.request.turn_id, turn.request.turn_id, "bench")
    assert (letter.code, letter.attempts) == ("undecodable", 0)
    assert "turn_id: Field required" in letter.reason
    found = await read_letter(lab.bus, letter.letter)
    assert found is not None
    assert found[1] is not None
    assert base64.b64decode(found[1].data) == BODY
    [logged] = [record for record in caplog.records if record.message == "dead letter"]
    assert "a secret" not in f"{logged.__dict__} {letter}"
    assert lab.counted("pallas_dead_letters_total", code="undecodable") == 1


@pytest.mark.parametrize("body", [b"", b"\xff\xfe no text", b"[]", b'{"turn_id": 7}', b"[" * 50_000])
async def test_any_unreadable_message_becomes_a_dead_letter_and_the_next_turn_runs(lab: Lab, body: bytes) -> None:
    await lab.worker()
    turn = await turn_with_body(lab, body)
    assert (await turn.outcome()).code == "undecodable"
    assert (await (await lab.ask("say")).outcome()).status == "completed"
    assert len(await letters(lab)) == 1


async def test_a_message_without_a_turn_id_becomes_a_dead_letter_and_leaves_the_queue(lab: Lab) -> None:
    await lab.worker()
    subject = await put(lab, b"junk")
    await until_letter_kept(lab)
    await until_queue_empty(lab.bus, lab.team)
    [letter] = await letters(lab)
    assert (letter.turn_id, letter.subject, letter.code) == (None, subject, "undecodable")
    assert letter.letter.startswith("position-")


async def test_a_worker_killed_before_settling_leaves_one_dead_letter_and_one_outcome(lab: Lab) -> None:
    worker = await lab.worker()
    turn = await turn_with_body(lab)
    first = await turn.outcome()
    [letter] = await letters(lab)
    await until_queue_empty(lab.bus, lab.team)
    # As if the worker had died before it settled the delivery: another worker gets it again.
    await worker.drain()
    again = await lab.worker()
    position = (await queue_state(lab.bus, lab.team, "bench")).delivered_position
    headers = {"Nats-Msg-Id": f"turn.requested:{turn.request.turn_id}"}
    delivery = Delivery(lab.bus, BODY, headers, "nowhere", 2, 0, letter.subject, position, datetime.now(UTC))
    await again.decoding.take(f"{lab.team}.bench", delivery)
    assert await letters(lab) == [letter]
    feed = await lab.feeds.resume(turn.ref)
    assert [message async for message in feed][-1] == first
    assert lab.counted("pallas_dead_letters_total", code="undecodable") == 1
    assert lab.counted("pallas_turns_total", outcome="failed") == 1


async def test_after_a_worker_dies_between_dead_letter_and_outcome_the_next_writes_the_outcome(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = ["the broker is gone"]

    async def fails_once(claimant: Claimant, why: Failed) -> Verdict:
        if failures:
            raise Unavailable(failures.pop())
        return await claim_to_end(claimant, why)

    monkeypatch.setattr(decode_turn, "claim_to_end", fails_once)
    await lab.worker()
    turn = await turn_with_body(lab)
    assert (await turn.outcome()).code == "undecodable"
    await until_queue_empty(lab.bus, lab.team)
    assert len(await letters(lab)) == 1
    assert lab.counted("pallas_dead_letters_total", code="undecodable") == 1


async def test_an_unreadable_message_of_a_cancelled_turn_ends_it_as_cancelled(lab: Lab) -> None:
    turn = await turn_with_body(lab)
    await request_cancel(lab.bus, turn.ref, "enough")
    await lab.worker()
    outcome = await turn.outcome()
    assert (outcome.status, outcome.code) == ("cancelled", "cancelled")
    assert [message.reason for message in turn.messages if isinstance(message, CancelRequested)] == ["enough"]
    await until_queue_empty(lab.bus, lab.team)
    assert [letter.code for letter in await letters(lab)] == ["undecodable"]


async def test_a_worker_that_cannot_read_a_turn_does_not_end_it_while_another_executes_it(lab: Lab) -> None:
    turn = lab.follow(lab.request("say"))
    lost = await lab.lose(turn.request)
    presence = WorkerPresence(worker="lost", slots=1, at=utc_now())
    await kv.put(lab.bus, WORKERS, presence, worker="lost")
    worker = await lab.worker()
    delivery = Delivery(lab.bus, BODY, lost.delivery.headers, "nowhere", 2, 0, lost.delivery.subject, 1, utc_now())
    await worker.decoding.take(f"{lab.team}.bench", delivery)
    assert await stored_outcome(lab.bus, turn.ref) is None
    await kv.delete(lab.bus, WORKERS, worker="lost")
    await worker.decoding.take(f"{lab.team}.bench", delivery)
    outcome = await turn.outcome()
    assert (outcome.code, outcome.attempt) == ("undecodable", 2)


async def test_a_turn_without_attempts_left_becomes_a_dead_letter(lab: Lab) -> None:
    worker = await lab.worker()
    turn = lab.follow(lab.request("say"))
    await worker.drain()
    lost = await lab.lose(turn.request, attempt=3)
    await lab.worker()
    await lost.redeliver()
    outcome = await turn.outcome()
    assert (outcome.code, outcome.retryable, outcome.attempt) == ("worker_lost", True, 4)
    [letter] = await letters(lab)
    assert (letter.turn_id, letter.code, letter.attempts) == (turn.request.turn_id, "worker_lost", 3)
    assert letter.reason == "The worker was lost 3 times. The turn may be retried."
    assert lab.counted("pallas_dead_letters_total", code="worker_lost") == 1


async def test_a_turn_without_attempts_left_that_had_an_effect_may_not_be_retried(lab: Lab) -> None:
    worker = await lab.worker()
    turn = lab.follow(lab.request("say"))
    await worker.drain()
    lost = await lab.lose(turn.request, attempt=3)
    await lost.writer.tool_starting(TOOL)
    await lost.writer.answered(Answered(call=TOOL.call, basis="b", answer="1"))
    await lost.writer.tool_starting(TOOL.model_copy(update={"call": "2", "safe": True}))  # stores what was before it
    await lab.worker()
    await lost.redeliver()
    outcome = await turn.outcome()
    assert (outcome.code, outcome.retryable) == ("worker_lost", False)
    assert await letters(lab) == []


async def test_a_turn_that_is_unsafe_to_repeat_makes_no_dead_letter(lab: Lab) -> None:
    turn = lab.follow(lab.request("say"))
    lost = await lab.lose(turn.request)
    await lost.writer.tool_starting(TOOL)
    await lab.worker()
    await lost.redeliver()
    assert (await turn.outcome()).code == "worker_lost"
    assert await letters(lab) == []
