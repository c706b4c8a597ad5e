"""A turn's log as workers write it: only the last claim and the first outcome count."""

import asyncio

import pytest
from nats.aio.msg import Msg
from tests.builders import turn_outcome, turn_requested
from tests.embedded import NatsServer
from tests.integration.bus.conftest import Declaring
from tests.integration.bus.turns import TOOL, attempt_of, numbers, result, step, stored, text, writer_of_the_cancel
from tests.link import linked
from tests.waiting import Collected, eventually, soon

from pallas_bus import connection
from pallas_bus.connection import connect
from pallas_bus.errors import Stored as StoredAt
from pallas_bus.errors import stored as stored_at
from pallas_contracts.errors import Conflict, Rejected, Unavailable
from pallas_contracts.turns import (
    Answered,
    CancelRequested,
    Claimed,
    LogMessage,
    Result,
    TextDelta,
    TurnClaim,
    TurnEvents,
)
from pallas_turns import write as writer_module
from pallas_turns.claims import TurnRef, claim_state, request_cancel, stored_outcome, watch_claims

# Who may act for a turn


async def test_of_two_claims_after_the_same_position_one_is_refused(turns: Declaring, team: str) -> None:
    bus, request = await turns(), turn_requested(team)
    await attempt_of(bus, request)
    with pytest.raises(Conflict) as refused:
        await attempt_of(bus, request, 2)
    assert refused.value.code == "wrong_last_sequence"


async def test_a_claim_after_the_last_one_supersedes_it(turns: Declaring, team: str) -> None:
    bus, request = await turns(), turn_requested(team)
    first = await attempt_of(bus, request)
    second = await attempt_of(bus, request, 2, after=first.fence)
    state = await claim_state(bus, second.ref)
    assert isinstance(state.claim, Claimed)
    assert (state.seq, state.claim.attempt, state.claim.worker) == (second.fence, 2, "w2")


async def test_an_unclaimed_turn_has_no_claim_and_no_outcome(turns: Declaring, team: str) -> None:
    bus, ref = await turns(), TurnRef.of(turn_requested(team))
    state = await claim_state(bus, ref)
    assert (state.seq, state.claim, await stored_outcome(bus, ref)) == (0, None, None)


async def test_a_cancel_is_final(turns: Declaring, team: str) -> None:
    bus, request = await turns(), turn_requested(team)
    writer = await attempt_of(bus, request)
    assert await request_cancel(bus, writer.ref, "the caller went away")
    assert not await request_cancel(bus, writer.ref, "again")
    state = await claim_state(bus, writer.ref)
    assert isinstance(state.claim, CancelRequested)
    assert state.claim.reason == "the caller went away"
    with pytest.raises(Conflict):
        await attempt_of(bus, request, 2, after=writer.fence)


async def test_a_turn_may_be_cancelled_before_it_is_claimed(turns: Declaring, team: str) -> None:
    bus, request = await turns(), turn_requested(team)
    assert await request_cancel(bus, TurnRef.of(request), "early")
    with pytest.raises(Conflict):
        await attempt_of(bus, request)


async def test_concurrent_cancels_store_one_cancel(turns: Declaring, team: str) -> None:
    bus, ref = await turns(), TurnRef.of(turn_requested(team))
    answers = await asyncio.gather(*(request_cancel(bus, ref, "now") for _ in range(4)))
    assert answers.count(True) == 1
    assert len(await stored(bus, ref)) == 1


async def test_watchers_are_notified_of_claims_and_cancels(turns: Declaring, team: str) -> None:
    bus, request = await turns(), turn_requested(team)
    claims = Collected[tuple[TurnClaim, int]]()
    async with watch_claims(bus, lambda claim, seq: claims.add((claim, seq)) if claim.team == team else None):
        await bus.client.flush()
        writer = await attempt_of(bus, request)
        await request_cancel(bus, writer.ref, "now")
        [(first, position), (last, _)] = await claims.count(2)
    assert isinstance(first.claim, Claimed)
    assert isinstance(last.claim, CancelRequested)
    assert position == writer.fence


# Events of an attempt


async def test_concurrent_events_share_a_message_and_content_has_its_own(turns: Declaring, team: str) -> None:
    bus, request = await turns(), turn_requested(team)
    writer = await attempt_of(bus, request)
    for number in range(1, 4):
        writer.emit(step(number))
        writer.emit(text(f"word {number}"))
    writer.emit(result("hello"))
    assert await writer.conclude(turn_outcome(request, events=writer.last_event))
    records = await stored(bus, writer.ref)
    assert [record.subject.split(".")[3] for record in records] == ["claim", "event", "content", "outcome"]


async def test_a_tool_start_is_stored_with_all_earlier_events_once_it_returns(turns: Declaring, team: str) -> None:
    bus, request = await turns(), turn_requested(team)
    writer = await attempt_of(bus, request)
    writer.emit(step(1))
    await writer.tool_starting(TOOL)
    records = await stored(bus, writer.ref)
    assert [record.subject.split(".")[3] for record in records] == ["claim", "event"]


@pytest.mark.parametrize("how", ["superseded", "cancelled"])
async def test_an_attempt_that_lost_its_turn_can_store_no_event_and_start_no_tool(
    turns: Declaring, team: str, how: str
) -> None:
    bus, request = await turns(), turn_requested(team)
    late = await attempt_of(bus, request)
    if how == "superseded":
        await attempt_of(bus, request, 2, after=late.fence)
    else:
        await request_cancel(bus, late.ref, "now")
    late.emit(step(1))
    with pytest.raises(Conflict):
        await late.tool_starting(TOOL)
    late.emit(result("too late"))
    with pytest.raises(Conflict) as refused:
        await late.conclude(turn_outcome(request, events=late.last_event))
    assert refused.value.code == "superseded"
    assert {record.subject.split(".")[3] for record in await stored(bus, late.ref)} == {"claim"}


async def test_the_first_outcome_is_kept(turns: Declaring, team: str) -> None:
    bus, request = await turns(), turn_requested(team)
    first = await attempt_of(bus, request)
    assert await first.conclude(turn_outcome(request))
    second = await attempt_of(bus, request, 2, after=first.fence)
    assert not await second.conclude(turn_outcome(request, attempt=2, status="failed", code="internal"))
    kept = await stored_outcome(bus, first.ref)
    assert kept is not None
    assert (kept.status, kept.attempt) == ("completed", 1)


async def test_a_turn_ends_with_its_answer_and_outcome_also_when_a_stream_takes_them_one_by_one(
    turns: Declaring, team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus, request = await turns(), turn_requested(team)
    refusals = [Unavailable("another is being stored", code="in_flight")]

    def refused_once(subject: str, message: Msg) -> StoredAt:
        if ".outcome." in subject and refusals:
            raise refusals.pop()
        return stored_at(subject, message)

    monkeypatch.setattr(connection, "stored", refused_once)
    for _ in range(2):
        writer = await attempt_of(bus, request)
        writer.emit(result("done"))
        assert await writer.conclude(turn_outcome(request, events=1))
        kinds = [record.subject.split(".")[3] for record in await stored(bus, writer.ref)]
        assert kinds == ["claim", "content", "outcome"]
        assert bus.one_by_one
        request = turn_requested(team)


async def test_concluding_again_with_the_same_outcome_succeeds(turns: Declaring, team: str) -> None:
    bus, request = await turns(), turn_requested(team)
    writer, ours = await attempt_of(bus, request), turn_outcome(request)
    assert await writer.conclude(ours)
    assert await writer.conclude(ours)


async def test_a_cancelled_turn_gets_its_outcome_although_its_claim_is_superseded(turns: Declaring, team: str) -> None:
    bus, request = await turns(), turn_requested(team)
    writer = await attempt_of(bus, request)
    await request_cancel(bus, writer.ref, "now")
    writer.emit(text("half a sent"))
    with pytest.raises(Conflict) as refused:
        await writer.conclude(turn_outcome(request, events=writer.last_event))
    assert refused.value.code == "superseded"
    last = await writer_of_the_cancel(writer)
    assert await last.conclude(turn_outcome(request, status="cancelled", code="cancelled"))


async def test_a_superseded_attempt_cannot_end_the_turn(turns: Declaring, team: str) -> None:
    bus, request = await turns(), turn_requested(team)
    first = await attempt_of(bus, request)
    await attempt_of(bus, request, 2, after=first.fence)
    with pytest.raises(Conflict) as refused:
        await first.conclude(turn_outcome(request))
    assert refused.value.code == "superseded"
    assert await stored_outcome(bus, first.ref) is None


async def test_a_result_over_the_broker_limit_is_rejected_and_the_turn_can_still_end(
    turns: Declaring, team: str
) -> None:
    bus, request = await turns(), turn_requested(team)
    writer = await attempt_of(bus, request)
    writer.emit(step(1))
    writer.emit(text("it will be long"))
    writer.emit(result("x" * bus.max_payload))
    with pytest.raises(Rejected) as refused:
        await writer.conclude(turn_outcome(request, events=writer.last_event))
    assert refused.value.code == "too_large"
    writer.emit(text("the answer was too large"))
    assert await writer.conclude(turn_outcome(request, events=writer.last_event, status="failed", code="internal"))
    assert await numbers(bus, writer.ref) == list(range(1, writer.last_event + 1)) == [1, 2, 3]


async def test_a_result_is_stored_before_the_outcome_even_if_the_server_dies_in_between(
    nats_server: NatsServer, turns: Declaring, team: str
) -> None:
    bus, request = await turns(nats_server.url), turn_requested(team)
    writer = await attempt_of(bus, request)
    nats_server.kill9()
    await eventually(lambda: not bus.connected)
    writer.emit(step(1))
    writer.emit(result("hello"))
    concluding = asyncio.create_task(writer.conclude(turn_outcome(request, events=writer.last_event)))
    nats_server.start()
    assert await soon(concluding, within=20.0)
    kinds = [record.subject.split(".")[3] for record in await stored(bus, writer.ref)]
    assert kinds == ["claim", "event", "content", "outcome"]
    assert await numbers(bus, writer.ref) == [1, 2]


async def test_a_waiting_request_fails_at_once_when_the_connection_breaks(
    nats_server: NatsServer, turns: Declaring, team: str
) -> None:
    await turns(nats_server.url)
    async with linked(nats_server.url) as link, connect(link.url, "agent-worker") as bus:
        link.swallow()
        waiting = asyncio.create_task(attempt_of(bus, turn_requested(team)))
        await soon(link.swallowed.wait())
        await link.cut()
        with pytest.raises(Unavailable):
            await soon(waiting)
        await link.mend()


async def test_a_turn_that_stores_too_much_gets_no_further_progress_and_is_told_so_once(
    turns: Declaring, team: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "MOST_STORED", 2000)
    bus, request = await turns(), turn_requested(team)
    writer = await attempt_of(bus, request)
    for _ in range(10):
        writer.emit(text("x" * 900))
        await writer.tool_starting(TOOL)  # what was emitted is sent before it
    assert not await writer.answered(Answered(call="1", basis="b", answer="{}"))
    writer.emit(result("done"))
    assert await writer.conclude(turn_outcome(request, events=writer.last_event))
    records = [record for record in await stored(bus, writer.ref) if ".content." in record.subject]
    found = [event for each in records for event in TurnEvents.model_validate_json(each.data).events]
    texts = [event for event in found if isinstance(event, TextDelta)]
    assert 1 <= len(texts) < 4
    assert sum(isinstance(event, LogMessage) for event in found) == 1
    assert isinstance(found[-1], Result)
