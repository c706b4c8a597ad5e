"""Turns that fail: a tool error with a stable code, a message and the turn's id, as in the log."""

import pytest
from tests.e2e.calls import Answer, call
from tests.e2e.lab import Era, Lab
from tests.e2e.turns import Turns

from pallas_turns.claims import TurnRef

pytestmark = pytest.mark.one_era

AGAIN = '/tool toolbox/add {"a": 1, "b": 1}'


async def check(turns: Turns, answer: Answer, agent: str, code: str) -> None:
    """Fail unless the caller and the log have the same failure."""
    assert answer.error["code"] == code
    assert answer.text.startswith(f"{code}: ")
    assert answer.turn in answer.text
    outcome = await turns.outcome(TurnRef("lab", agent, answer.turn))
    assert (outcome.status, outcome.code) == ("failed", code)


async def test_a_failing_model_is_reported_with_its_message(lab: Lab, turns: Turns, era: Era) -> None:
    async with lab.client("plain", era) as client:
        answer = await call(client, "plain", "/fail the model is on holiday")
    await check(turns, answer, "plain", "model_failed")
    assert "the model is on holiday" in answer.text


async def test_a_turn_beyond_its_timeout_fails(lab: Lab, turns: Turns, era: Era) -> None:
    async with lab.client("hasty", era) as client:
        answer = await call(client, "hasty", "/sleep 30")
    await check(turns, answer, "hasty", "turn_timeout")


async def test_a_turn_beyond_its_maximum_of_iterations_fails(lab: Lab, turns: Turns, era: Era) -> None:
    async with lab.client("brief", era) as client:
        answer = await call(client, "brief", f"{AGAIN}\n{AGAIN}\n{AGAIN}")
    await check(turns, answer, "brief", "iterations_exceeded")
    assert answer.messages.count("toolbox/add: completed") == 2


@pytest.mark.parametrize("agent", ["plain"])
async def test_a_failed_turn_does_not_affect_the_next(lab: Lab, era: Era, agent: str) -> None:
    async with lab.client(agent, era) as client:
        await call(client, agent, "/fail")
        answer = await call(client, agent, "/say well again")
    assert answer.text == "well again"


async def test_a_failing_sub_agent_is_a_failed_tool_and_the_turn_goes_on(lab: Lab, era: Era) -> None:
    async with lab.client("chief", era) as client:
        answer = await call(client, "chief", '/tool reader {"message": "/fail no luck"}\n/say went on')
    assert "reader/reader__reader: failed" in answer.messages
    assert not answer.result.is_error
    assert "went on" in answer.text


async def test_an_unknown_tool_is_a_failed_tool_and_the_turn_goes_on(lab: Lab, era: Era) -> None:
    async with lab.client("chief", era) as client:
        answer = await call(client, "chief", "/tool toolbox/teleport {}\n/say went on")
    assert "toolbox/teleport: failed" in answer.messages
    assert "went on" in answer.text
