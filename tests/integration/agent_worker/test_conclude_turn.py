"""The end of a turn, also when the broker refuses messages of it."""

import pytest
from tests.builders import turn_requested
from tests.embedded import NatsServer
from tests.integration.bus.turns import attempt_of, numbers, step
from tests.waiting import soon

from pallas_bus.connection import Bus, connect
from pallas_bus.streams import declare
from pallas_contracts.catalog import TURN_LOG, TURN_OBJECTS
from pallas_contracts.errors import Rejected
from pallas_contracts.message import utc_now
from pallas_contracts.turns import InputRequired, LogMessage, Result, TurnOutcome, TurnRequested
from pallas_turns.claims import stored_outcome
from pallas_turns.conclude import conclude_turn
from pallas_turns.runtime import Completed, Failed, NeedsInput, Outcome


def ignore(_ended: TurnOutcome) -> None:
    """Do nothing."""


async def ended(bus: Bus, request: TurnRequested, outcome: Outcome, *messages: LogMessage) -> TurnOutcome:
    """Conclude a turn with these log messages. Fails if its log has a gap."""
    writer = await attempt_of(bus, request)
    writer.emit(step(1))
    for each in messages:
        writer.emit(each)
    await soon(conclude_turn(writer, request, outcome, utc_now(), ignore))
    until_letter_kept = await stored_outcome(bus, writer.ref)
    assert until_letter_kept is not None
    assert await numbers(bus, writer.ref) == list(range(1, until_letter_kept.events + 1))
    return until_letter_kept


async def test_a_turn_with_a_log_message_over_the_broker_limit_ends_with_its_answer(nats_url: str, team: str) -> None:
    async with connect(nats_url, "agent-gateway") as bus:
        await declare(bus, TURN_LOG, TURN_OBJECTS)
        huge = LogMessage(level="info", data="x" * bus.max_payload)
        outcome = await ended(bus, turn_requested(team), Completed(Result()), huge)
    assert (outcome.status, outcome.events) == ("completed", 3)


async def test_a_turn_with_a_log_message_that_is_not_json_ends_with_its_answer(nats_url: str, team: str) -> None:
    async with connect(nats_url, "agent-gateway") as bus:
        await declare(bus, TURN_LOG, TURN_OBJECTS)
        outcome = await ended(bus, turn_requested(team), Completed(Result()), LogMessage(level="info", data=object()))
    assert (outcome.status, outcome.events) == ("completed", 3)


async def test_an_answer_that_cannot_be_encoded_ends_the_turn_by_name(nats_url: str, team: str) -> None:
    async with connect(nats_url, "agent-gateway") as bus:
        await declare(bus, TURN_LOG, TURN_OBJECTS)
        outcome = await ended(bus, turn_requested(team), Completed(Result(structured={"no": object()})))
    assert (outcome.status, outcome.code, outcome.events) == ("failed", "invalid_answer", 2)


async def test_a_request_for_input_that_is_too_large_fails_the_turn_with_its_code(nats_url: str, team: str) -> None:
    async with connect(nats_url, "agent-gateway") as bus:
        await declare(bus, TURN_LOG, TURN_OBJECTS)
        ask = InputRequired(input_requests={"name": "x" * bus.max_payload})
        outcome = await ended(bus, turn_requested(team), NeedsInput(ask))
    assert (outcome.status, outcome.code, outcome.events) == ("failed", "result_too_large", 2)


@pytest.mark.parametrize("outcome", [Completed(Result()), Failed("internal", "it failed"), None])
async def test_an_outcome_that_the_broker_refuses_for_good_is_not_retried(
    nats_server: NatsServer, team: str, outcome: Outcome | None
) -> None:
    async with connect(nats_server.url, "agent-gateway") as bus:
        await declare(bus, TURN_LOG, TURN_OBJECTS)
        request = turn_requested(team)
        writer = await attempt_of(bus, request)
        config = (await bus.api(f"STREAM.INFO.{TURN_LOG.name}", {}))["config"]
        await bus.api(f"STREAM.UPDATE.{TURN_LOG.name}", {**config, "max_msg_size": 1})
        with pytest.raises(Rejected):
            await soon(conclude_turn(writer, request, outcome, utc_now(), ignore))
