"""Responses of a model that an agent refuses: unknown tools, arguments that are no JSON object, nothing at all."""

from typing import Any

import pytest
from pydantic_ai.messages import BinaryContent, FilePart, ModelResponse, ModelResponsePart, RetryFeedbackPart, TextPart
from pydantic_ai.settings import ModelSettings
from tests.runtimes import Events
from tests.scripted import BOB, CLERK, CUT, THOUGHT, Scripted, an_agent, answer, both, call, failure

from pallas_contracts.turns import Step, ToolStarted


@both
async def test_the_model_is_told_which_tools_there_are_when_it_calls_an_unknown_one(streams: bool) -> None:
    events = Events()
    script = Scripted([call(CLERK), call("no__such", "{}", "2"), call("bare", CUT, "3")], "done")
    await answer(an_agent(script, streams=streams), events)
    known = "Available tools: 'bob__bob', 'clerk__clerk'"
    assert [(part.outcome, part.content) for part in script.results()] == [
        ("success", "ok"),
        ("retried", f"Unknown tool name: 'no__such'. {known}"),
        ("retried", f"Unknown tool name: 'bare'. {known}"),
    ]
    assert events.lines()[1:7] == [
        "harper step 2 (tool)",
        "no/such: started",
        "no/such: failed",
        "harper/bare: started",
        "harper/bare: failed",
        "clerk/clerk__clerk: started",
    ]
    assert [event.call for event in events.of(ToolStarted)] == ["1.2", "1.3", "1.1"]


async def test_an_agent_without_tools_is_told_that_there_are_none() -> None:
    script = Scripted([call("no__such")], "done")
    await answer(an_agent(script, alone=True))
    assert [part.content for part in script.results()] == ["Unknown tool name: 'no__such'. No tools available."]


async def test_unknown_tools_are_refused_until_the_iterations_are_used_up() -> None:
    script = Scripted([call("no__such")])
    assert (await failure(an_agent(script, most=4))).code == "iterations_exceeded"
    assert len(script.asked) == 4


@both
async def test_arguments_that_are_no_json_are_refused_and_the_other_calls_are_made(streams: bool) -> None:
    events = Events()
    script = Scripted([call(CLERK, CUT, "1"), call(BOB, number="2")], "done")
    assert await answer(an_agent(script, streams=streams), events) == "done"
    refused, done = script.results()
    assert (refused.outcome, refused.content) == (
        "retried",
        [
            {
                "type": "json_invalid",
                "loc": [],
                "msg": "Invalid JSON: EOF while parsing a value at line 1 column 12",
                "input": CUT,
            }
        ],
    )
    assert (done.outcome, done.content) == ("success", "ok")
    assert [event.server for event in events.of(ToolStarted)] == ["bob"]


@pytest.mark.parametrize("arguments", ["[]", "null", "7"])
async def test_arguments_that_are_no_object_are_refused(arguments: str) -> None:
    script = Scripted([call(BOB, arguments, "1")], "done")
    assert await answer(an_agent(script)) == "done"
    [refused] = script.results()
    assert refused.outcome == "retried"
    assert "Input should be an object" in str(refused.content)


async def test_a_call_without_arguments_has_an_empty_object() -> None:
    script = Scripted([call(CLERK, ""), call(BOB, {}, "2")], "done")
    await answer(an_agent(script))
    assert [(part.outcome, part.content) for part in script.results()] == [("failed", "'message' must be a string")] * 2


BAD, GOOD, OTHER = call(CLERK, CUT), call(CLERK), call(BOB, number="2")


@pytest.mark.parametrize(
    "responses",
    [
        [[BAD], [BAD]],
        [[BAD], [OTHER, BAD]],
        [[BAD], [OTHER], [BAD]],
        [[BAD], [THOUGHT], [BAD]],
        [[BAD], [call(CLERK, {"message": "/fail"})], [BAD]],
        [[BAD, call(CLERK, number="2")], [BAD]],
    ],
)
async def test_a_tool_that_is_refused_twice_without_a_success_in_between_fails_the_turn(
    responses: list[list[ModelResponsePart]],
) -> None:
    script = Scripted(*responses, "done")
    failed = await failure(an_agent(script))
    assert failed.code == "model_failed"
    assert f"Tool {CLERK!r} exceeded max retries count of 1" in failed.message
    assert len(script.asked) == len(responses)


@pytest.mark.parametrize("responses", [[[BAD], [GOOD], [BAD]], [[BAD, call(CLERK, CUT, "2")]]])
async def test_a_tool_may_be_refused_again_after_a_success(responses: list[list[ModelResponsePart]]) -> None:
    assert await answer(an_agent(Scripted(*responses, "done"))) == "done"


async def test_a_refused_call_that_was_cut_off_says_that_the_limit_of_tokens_did_it() -> None:
    script = Scripted([BAD], ModelResponse([BAD], finish_reason="length"))
    failed = await failure(an_agent(script, settings=ModelSettings(max_tokens=9)))
    assert failed.code == "model_failed"
    assert "(9) exceeded while generating a tool call, resulting in incomplete arguments" in failed.message


@both
@pytest.mark.parametrize("nothing", [[TextPart("")], [THOUGHT], [THOUGHT, TextPart("")]])
async def test_a_response_without_text_or_calls_is_answered_with_a_request_for_one(
    streams: bool, nothing: list[ModelResponsePart]
) -> None:
    events = Events()
    script = Scripted(nothing, "done")
    assert await answer(an_agent(script, streams=streams, alone=True), events) == "done"
    assert [message.kind for message in script.asked[-1]] == ["request", "response", "request"]
    (asked,) = script.asked[-1][-1].parts
    assert not isinstance(asked, RetryFeedbackPart), "a provider gets it in its own form"
    assert "Please return text." in str(asked)
    assert [event.n for event in events.of(Step)] == [1, 2]


async def test_an_agent_with_tools_is_also_asked_to_call_one() -> None:
    script = Scripted([FilePart(BinaryContent(b"x", media_type="image/png"))], "done")
    assert await answer(an_agent(script)) == "done"
    assert "Please return text or call a tool." in str(script.asked[-1][-1].parts)


@pytest.mark.parametrize("responses", [[[THOUGHT]], [[THOUGHT], [GOOD], [THOUGHT], "done"]])
async def test_a_second_response_of_a_run_without_text_or_calls_fails_the_turn(responses: list[Any]) -> None:
    failed = await failure(an_agent(Scripted(*responses)))
    assert failed.code == "model_failed"
    assert "Exceeded maximum output retries (1)" in failed.message


async def test_a_request_for_text_is_an_iteration() -> None:
    assert (await failure(an_agent(Scripted([THOUGHT]), most=1))).code == "iterations_exceeded"


async def test_blank_text_is_an_answer() -> None:
    assert await answer(an_agent(Scripted("  "))) == ""


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (ModelResponse([THOUGHT], finish_reason="length"), "(9) exceeded before any response was generated"),
        (ModelResponse([], finish_reason="length"), "(9) exceeded before any response was generated"),
        (
            ModelResponse([], finish_reason="content_filter", provider_details={"finish_reason": "no", "refusal": "x"}),
            "Content filter triggered. Finish reason: 'no'. Refusal: 'x'",
        ),
    ],
)
async def test_a_response_that_was_cut_off_before_its_text_fails_the_turn_at_once(
    response: ModelResponse, reason: str
) -> None:
    script = Scripted(response)
    failed = await failure(an_agent(script, settings=ModelSettings(max_tokens=9)))
    assert failed.code == "model_failed"
    assert reason in failed.message
    assert len(script.asked) == 1


async def test_text_that_was_cut_off_is_an_answer() -> None:
    assert await answer(an_agent(Scripted(ModelResponse([TextPart("cut")], finish_reason="length")))) == "cut"
