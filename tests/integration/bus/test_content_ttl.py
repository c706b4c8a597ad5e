"""How long each kind of content is kept: content at a turn's end exactly, earlier content at most."""

from datetime import timedelta

import pytest
from tests.builders import turn_outcome, turn_requested
from tests.integration.bus.conftest import Declaring
from tests.integration.bus.turns import TOOL, attempt_of, lifetimes, result, step, text

from pallas_bus.connection import Bus
from pallas_bus.reads import read
from pallas_contracts.catalog import KEPT_REQUEST, TURN_CONTENT, TURN_EVENT, TURN_LOG, TURN_OBJECTS, TURN_OUTCOME
from pallas_contracts.turns import TurnOutcome, TurnRequested, TurnStatus
from pallas_turns.claims import stored_outcome
from pallas_turns.content import OFFLOAD_ABOVE, objects_of
from pallas_turns.write import LEAST_CONTENT_TTL, TurnWriter

AFTER = 120
LONGEST = 30
SLACK = 60


async def a_writer(bus: Bus, request: TurnRequested) -> TurnWriter:
    """An attempt at a turn of at most `LONGEST` seconds whose content is kept for `AFTER`."""
    made = await attempt_of(bus, request)
    return TurnWriter(bus, made.ref, 1, made.fence, keep=lambda _status: AFTER, turn_timeout=LONGEST, kept=request)


async def ended(writer: TurnWriter, request: TurnRequested) -> TurnOutcome:
    """The stored outcome, after the attempt has ended the turn."""
    assert await writer.conclude(turn_outcome(request, events=writer.last_event))
    outcome = await stored_outcome(writer.bus, writer.ref)
    assert outcome is not None
    return outcome


async def test_final_content_expires_by_its_ttl_exactly_after_its_time(turns: Declaring, team: str) -> None:
    bus, request = await turns(), turn_requested(team)
    writer = await a_writer(bus, request)
    writer.emit(step(1))
    await writer.tool_starting(TOOL)
    writer.emit(result("done"))
    outcome = await ended(writer, request)
    assert outcome.content_until is None
    assert await lifetimes(bus, TURN_LOG, writer.ref.on(TURN_CONTENT.template)) == [AFTER]
    assert await lifetimes(bus, TURN_LOG, writer.ref.on(KEPT_REQUEST.template)) == [AFTER]
    assert await lifetimes(bus, TURN_LOG, writer.ref.on(TURN_EVENT.template)) == [None]
    assert await lifetimes(bus, TURN_LOG, writer.ref.on(TURN_OUTCOME.template)) == [None]


async def test_earlier_content_lives_through_the_longest_turn_and_is_removed_with_the_rest(
    turns: Declaring, team: str
) -> None:
    bus, request = await turns(), turn_requested(team)
    writer = await a_writer(bus, request)
    writer.emit(text("hel"))
    await writer.tool_starting(TOOL)
    writer.emit(result("hello"))
    outcome = await ended(writer, request)
    assert outcome.content_until == outcome.ended_at + timedelta(seconds=AFTER)
    early, last = await lifetimes(bus, TURN_LOG, writer.ref.on(TURN_CONTENT.template))
    assert early in range(AFTER + LONGEST + SLACK - 2, AFTER + LONGEST + SLACK + 1)
    assert last == AFTER


async def test_an_offloaded_answer_is_removed_with_the_rest_and_has_a_ttl(turns: Declaring, team: str) -> None:
    bus, request = await turns(), turn_requested(team)
    writer = await a_writer(bus, request)
    writer.emit(await writer.offload(result("x" * OFFLOAD_ABOVE)))
    outcome = await ended(writer, request)
    assert outcome.content_until == outcome.ended_at + timedelta(seconds=AFTER)
    assert set(await lifetimes(bus, TURN_OBJECTS, objects_of(writer.ref))) == {AFTER + SLACK}


@pytest.mark.parametrize("kept", [True, False])
async def test_the_request_is_kept_only_if_asked_for(turns: Declaring, team: str, kept: bool) -> None:
    bus, request = await turns(), turn_requested(team)
    writer = await a_writer(bus, request)
    writer.kept = request if kept else None
    await ended(writer, request)
    found = [record async for record in read(bus, TURN_LOG.name, writer.ref.on(KEPT_REQUEST.template))]
    assert [TurnRequested.model_validate_json(record.data) for record in found] == ([request] if kept else [])


@pytest.mark.parametrize(("status", "kept"), [("completed", 60), ("failed", 7200), ("input_required", None)])
async def test_content_is_kept_by_how_the_turn_ends_and_early_content_until_the_outcome_says(
    turns: Declaring, team: str, status: TurnStatus, kept: int | None
) -> None:
    bus, request = await turns(), turn_requested(team)
    keep: dict[TurnStatus, float] = {"completed": 60.0, "failed": 7200.0, "input_required": 0.0}
    made = await attempt_of(bus, request)
    writer = TurnWriter(
        bus, made.ref, 1, made.fence, keep=lambda status: keep.get(status, AFTER), turn_timeout=LONGEST, kept=request
    )
    writer.emit(text("early"))
    await writer.tool_starting(TOOL)
    writer.emit(result("done"))
    outcome = turn_outcome(request, events=writer.last_event, status=status)
    assert await writer.conclude(outcome)
    stored = await stored_outcome(bus, writer.ref)
    assert stored is not None
    assert stored.content_until is not None
    assert (stored.content_until - stored.ended_at).total_seconds() == (kept or LEAST_CONTENT_TTL)
    early, last = await lifetimes(bus, TURN_LOG, writer.ref.on(TURN_CONTENT.template))
    assert early is not None
    assert 7200 < early <= 7200 + LONGEST + SLACK
    assert last == (kept or LEAST_CONTENT_TTL)
    assert await lifetimes(bus, TURN_LOG, writer.ref.on(KEPT_REQUEST.template)) == ([kept] if kept else [])
