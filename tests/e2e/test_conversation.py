"""Conversations belong to the caller: the history of a call is used for one turn and not kept."""

import base64
import json

import pytest
from tests.e2e.calls import call
from tests.e2e.lab import Era, Lab
from tests.e2e.turns import Turns
from tests.requirements import requirement
from tests.waiting import eventually, soon

pytestmark = pytest.mark.one_era

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n a picture").decode()
IMAGE = {"data": PIXEL, "mime_type": "image/png"}
SIZE = len(base64.b64decode(PIXEL))
EARLIER = [
    {"role": "user", "content": "My name is Ada."},
    {"role": "assistant", "content": "Hello Ada."},
    {"role": "user", "content": "And I like whales."},
]


@requirement("P-2.10", "P-2.14", "P-5.16")
async def test_without_history_the_agent_sees_only_the_message(lab: Lab, era: Era) -> None:
    async with lab.client("plain", era) as client:
        result = await client.call_tool("plain", {"message": "/history"})
    assert [block.model_dump(include={"type", "text"}) for block in result.content] == [{"type": "text", "text": "[]"}]
    assert not result.is_error


@requirement("P-2.5", "P-2.7")
async def test_the_agent_starts_with_the_history_of_the_call(lab: Lab, era: Era) -> None:
    async with lab.client("plain", era) as client:
        answer = await call(client, "plain", "/history", history=EARLIER)
    assert json.loads(answer.text) == EARLIER


@requirement("P-0.2", "P-2.6")
async def test_bad_history_rows_are_skipped_with_a_warning_and_the_rest_is_used(lab: Lab, era: Era) -> None:
    bad: list[object] = [
        "no object",
        {"role": "system", "content": "obey"},
        {"role": "user"},
        {"content": "nobody's"},
        {"role": "user", "content": ["a", "list"]},
        {"role": "user", "content": "look", "images": [{"data": PIXEL}]},
        {"role": "user", "content": "look", "images": [{"mime_type": "image/png"}]},
        {"role": "user", "content": "look", "images": [{"data": "%%%", "mime_type": "image/png"}]},
        None,
    ]
    async with lab.client("seer", era) as client:
        answer = await call(client, "seer", "/history", history=[bad[0], EARLIER[0], *bad[1:], EARLIER[1]])
    assert json.loads(answer.text) == EARLIER[:2]
    lines = [json.loads(line) for line in lab.logs("agent-worker").splitlines() if answer.turn in line]
    (skipped,) = [line for line in lines if line["event"] == "history rows skipped"]
    assert (skipped["skipped"], skipped["rows"]) == (9, [0, *range(2, 10)])
    assert skipped["level"] == "warning"


@requirement("P-0.1", "P-2.1")
async def test_an_agent_remembers_nothing_from_one_call_to_the_next(lab: Lab, era: Era) -> None:
    async with lab.client("plain", era) as client:
        await call(client, "plain", "/say first", history=EARLIER, conversation_id="same")
        answer = await call(client, "plain", "/history", conversation_id="same")
    assert answer.text == "[]"


@requirement("P-2.12")
async def test_a_long_history_is_never_trimmed(lab: Lab, era: Era) -> None:
    rows = [{"role": ("user", "assistant")[n % 2], "content": f"row {n} " + "x" * 100} for n in range(400)]
    async with lab.client("plain", era) as client:
        answer = await call(client, "plain", "/history", history=rows)
    assert json.loads(answer.text) == rows


@requirement("P-2.12")
async def test_a_history_beyond_the_models_context_window_is_an_error_and_not_trimmed(lab: Lab, era: Era) -> None:
    rows = [{"role": "user", "content": "x" * 2000}]
    async with lab.client("small", era) as client:
        answer = await call(client, "small", "/history", history=rows)
    assert answer.error["code"] == "context_overflow"
    assert answer.turn in answer.text


@requirement("P-2.3")
async def test_images_reach_a_vision_model_for_this_turn_only(lab: Lab, era: Era) -> None:
    async with lab.client("seer", era) as client:
        with_image = await call(client, "seer", "/images", images=[IMAGE])
        without = await call(client, "seer", "/images")
    assert json.loads(with_image.text) == [{"mime_type": "image/png", "bytes": SIZE, "of": "turn"}]
    assert json.loads(without.text) == []


@requirement("P-2.8")
@pytest.mark.parametrize("role", ["user", "assistant"])
async def test_images_of_the_history_reach_a_vision_model_too(lab: Lab, era: Era, role: str) -> None:
    async with lab.client("seer", era) as client:
        answer = await call(
            client, "seer", "/images", history=[{"role": role, "content": "look", "images": [IMAGE, IMAGE]}]
        )
    assert json.loads(answer.text) == [{"mime_type": "image/png", "bytes": SIZE, "of": "history"}] * 2


@requirement("P-2.4")
async def test_images_for_a_model_without_vision_are_a_tool_error(lab: Lab, era: Era) -> None:
    async with lab.client("plain", era) as client:
        answer = await call(client, "plain", "/images", images=[IMAGE])
    assert answer.error["code"] == "vision_required"
    assert "cannot see" in answer.text


async def test_images_of_the_history_are_left_out_for_a_model_without_vision(lab: Lab, era: Era) -> None:
    rows = [{"role": "user", "content": "look", "images": [IMAGE]}]
    async with lab.client("plain", era) as client:
        images = await call(client, "plain", "/images", history=rows)
        history = await call(client, "plain", "/history", history=rows)
    assert images.text == "[]"
    assert json.loads(history.text) == [{"role": "user", "content": "look"}]
    assert any(
        images.turn in line and "the model has no vision" in line for line in lab.logs("agent-worker").splitlines()
    )


@requirement("P-0.3", "P-2.9")
async def test_a_conversation_id_is_in_the_log_lines_of_its_turn_and_stored_nowhere(
    lab: Lab, turns: Turns, era: Era
) -> None:
    conversation = f"chat-{era}-4711"
    async with lab.client("plain", era) as client:
        answer = await call(client, "plain", "/say hello", conversation_id=conversation)
    assert conversation not in answer.result.model_dump_json()
    await eventually(lambda: f'"{conversation}"' in lab.logs("agent-worker"))
    lines = [json.loads(line) for line in lab.logs("agent-worker").splitlines() if conversation in line]
    assert {(line["turn"], line["conversation"]) for line in lines} == {(answer.turn, conversation)}
    await soon(turns.queue_is_empty())
    stored = await turns.everything_stored()
    assert any(answer.turn in record.subject for record in stored)
    assert not any(conversation.encode() in record.data for record in stored)
