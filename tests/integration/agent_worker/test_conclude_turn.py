"""The end of a turn, whatever the broker makes of what is to be said."""

import pytest
from tests.builders import turn_requested
from tests.embedded import NatsServer
from tests.integration.bus.turns import attempt_of, numbers, step
from tests.waiting import soon

from pallas_bus.transport.connection import Bus, connect
from pallas_bus.transport.streams import declare
from pallas_bus.turnlog.claims import stored_outcome
from pallas_contracts.catalog import TURN_LOG, TURN_OBJECTS
from pallas_contracts.errors import Rejected
from pallas_contracts.message import utc_now
from pallas_contracts.turns import InputRequired, LogMessage, Result, TurnOutcome, TurnRequested
from pallas_executor.agent_runtime import (
    Completed,
    Failed,
    NeedsInput,
    Outcome,
)
from pallas_executor.conclude_turn import conclude_turn


def heard(_ended: TurnOutcome) -> None:
    """Nobody listens."""


async def ended(bus: Bus, request: TurnRequested, outcome: Outcome, *said: LogMessage) -> TurnOutcome:
    """Conclude a turn in which that was said; its log has no gap."""
    writer = await attempt_of(bus, request)
    writer.emit(step(1))
    for each in said:
        writer.emit(each)
    await soon(conclude_turn(writer, request, outcome, utc_now(), heard))
    kept = await stored_outcome(bus, writer.ref)
    assert kept is not None
    assert await numbers(bus, writer.ref) == list(range(1, kept.events + 1))
    return kept


async def test_a_turn_in_which_too_much_was_said_at_once_ends_with_its_answer(nats_url: str, team: str) -> None:
    async with connect(nats_url, "agent-gateway") as bus:
        await declare(bus, TURN_LOG, TURN_OBJECTS)
        huge = LogMessage(level="info", data="x" * bus.max_payload)
        outcome = await ended(bus, turn_requested(team), Completed(Result()), huge)
    assert (outcome.status, outcome.events) == ("completed", 3)


async def test_a_turn_in_which_something_was_said_that_is_no_json_has_its_answer(nats_url: str, team: str) -> None:
    async with connect(nats_url, "agent-gateway") as bus:
        await declare(bus, TURN_LOG, TURN_OBJECTS)
        outcome = await ended(bus, turn_requested(team), Completed(Result()), LogMessage(level="info", data=object()))
    assert (outcome.status, outcome.events) == ("completed", 3)


async def test_a_question_to_the_caller_that_is_too_large_is_a_clear_failure(nats_url: str, team: str) -> None:
    async with connect(nats_url, "agent-gateway") as bus:
        await declare(bus, TURN_LOG, TURN_OBJECTS)
        ask = InputRequired(input_requests={"name": "x" * bus.max_payload})
        outcome = await ended(bus, turn_requested(team), NeedsInput(ask))
    assert (outcome.status, outcome.code, outcome.events) == ("failed", "result_too_large", 2)


@pytest.mark.parametrize("outcome", [Completed(Result()), Failed("internal", "it failed"), None])
async def test_a_turn_whose_end_the_broker_refuses_for_good_is_not_ended_again_and_again(
    nats_server: NatsServer, team: str, outcome: Outcome | None
) -> None:
    async with connect(nats_server.url, "agent-gateway") as bus:
        await declare(bus, TURN_LOG, TURN_OBJECTS)
        request = turn_requested(team)
        writer = await attempt_of(bus, request)
        config = (await bus.api(f"STREAM.INFO.{TURN_LOG.name}", {}))["config"]
        await bus.api(f"STREAM.UPDATE.{TURN_LOG.name}", {**config, "max_msg_size": 1})
        with pytest.raises(Rejected):
            await soon(conclude_turn(writer, request, outcome, utc_now(), heard))
