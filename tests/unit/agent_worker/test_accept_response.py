"""What a model has answered is made usable, since it is paid."""

import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo
from pydantic_ai.usage import RequestUsage
from tests.runtimes import Events
from tests.scripted import BOB, CLERK, Scripted, an_agent, answer, both, call

from agent_worker.llm.calls import accept_response
from pallas_contracts.turns import ModelCalled, TextDelta


@both
async def test_a_character_in_two_halves_is_joined_and_a_single_half_replaced(streams: bool) -> None:
    events = Events()
    script = Scripted("a\ud83d \ude00b c\ud83d\ude00")
    text = await answer(an_agent(script, streams=streams), events)
    assert text == "a\ufffd \ufffdb c😀"
    assert "".join(event.text for event in events.of(TextDelta)) == text


async def test_the_two_halves_of_a_character_may_come_in_two_pieces() -> None:
    class Split(Scripted):
        async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
            await self._answer(messages, info)
            for piece in ("a\ud83d", "\ude00 b"):
                yield piece

    events = Events()
    assert await answer(an_agent(Split(""), streams=True), events) == "a😀 b"
    assert "".join(event.text for event in events.of(TextDelta)) == "a😀 b"


@both
async def test_calls_with_one_id_are_all_made_and_all_answered(streams: bool) -> None:
    script = Scripted([call(CLERK, number="x:3"), call(BOB, number="x:3"), call(BOB, number="x:3_2")], "done")
    assert await answer(an_agent(script, streams=streams)) == "done"
    ids = [part.tool_call_id for part in script.results()]
    assert ids[0] == "x:3"
    assert len(set(ids)) == 3
    asked = [part.tool_call_id for part in script.asked[-1][-2].parts if isinstance(part, ToolCallPart)]
    assert asked == ids


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"input_tokens": 3, "cache_read_tokens": 7}, (3, 0, 3)),
        ({"input_tokens": 3.5, "output_tokens": 2.4}, (4, 2, 0)),
        ({"input_tokens": 10**30, "output_tokens": math.inf}, (0, 0, 0)),
        ({"input_tokens": -1, "output_tokens": math.nan, "cache_read_tokens": "7"}, (0, 0, 0)),
    ],
    ids=["more cached", "fractions", "huge", "no numbers"],
)
def test_impossible_numbers_of_tokens_become_possible(given: dict[str, Any], wanted: tuple[int, int, int]) -> None:
    details: Any = {"y": 0.5}
    usage = accept_response(ModelResponse([TextPart("x")], usage=RequestUsage(**given, details=details))).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == wanted
    ModelCalled(agent="a", model="m", duration_ms=1.0, input_tokens=usage.input_tokens)


@both
async def test_an_argument_that_is_no_number_of_json_is_refused_and_the_model_told(streams: bool) -> None:
    script = Scripted([call(CLERK, '{"message": NaN}', "1")], "done")
    assert await answer(an_agent(script, streams=streams)) == "done"
    (result,) = script.results()
    assert "nan is no number of JSON" in str(result.content)
