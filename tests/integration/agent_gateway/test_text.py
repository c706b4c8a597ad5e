"""Callers that ask for it get the text of the agent's own model while it is written, in both eras."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from mcp import Client
from mcp_types import CallToolResult, RequestParamsMeta
from tests.e2e import wire
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.agent_gateway.streams import KEY, Received
from tests.integration.real_parts import Front
from tests.requirements import requirement
from tests.waiting import Collected, soon

from pallas_mcp_calls.calls import AgentCalls
from pallas_mcp_calls.model import Progress, Target, TextDelta

type Era = Literal["auto", "legacy"]

ERAS = pytest.mark.parametrize("era", ["auto", "legacy"])
ASK = {"pallas/text-deltas": True}


def written(attempt: int = 1) -> str:
    """What `recite` writes in an attempt."""
    return "".join(f"{number} in attempt {attempt}; " for number in range(1, 11))


def text_of(messages: list[str]) -> str:
    """The text in progress messages."""
    return "".join(message.removeprefix("text: ") for message in messages if message.startswith("text: "))


@pytest.fixture
async def front(platform: Platform) -> Front:
    """A gateway with a worker, to which the broker sends its own turns only."""
    await platform.worker()
    return await platform.gateway("bench", log_key=KEY, live_turns="own")


async def recite(
    client: Client, file: Path, messages: Collected[str], meta: dict[str, Any], *, progress: bool = True
) -> CallToolResult:
    """Call `recite` with the official client."""

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        messages.add(message or "")

    callback = heard if progress else None
    arguments = {"file": str(file)}
    return await soon(client.call_tool("recite", arguments, progress_callback=callback, meta=RequestParamsMeta(**meta)))


@ERAS
async def test_text_comes_while_it_is_written_and_is_the_answer_in_the_end(
    platform: Platform, front: Front, era: Era
) -> None:
    file, messages = platform.file(), Collected[str]()
    async with front.client(platform.team, "bench", era) as client:
        calling = asyncio.create_task(recite(client, file, messages, ASK))
        await messages.until(lambda seen: "waiting in attempt 1" in seen)
        assert text_of(messages.items) == "".join(f"{number} in attempt 1; " for number in range(1, 6))
        file.touch()
        result = await calling
    assert result.content[0].model_dump()["text"] == written()
    assert text_of(messages.items) == written()[: len(text_of(messages.items))], (
        "the last piece may be in the answer only"
    )
    assert not any("not this" in message for message in messages.items)


@ERAS
@requirement("P-5.14")
@pytest.mark.parametrize(
    "meta", [{}, {"pallas/text-deltas": False}, {"pallas/text-deltas": 1}, {"pallas/text-deltas": "true"}], ids=range(4)
)
async def test_nobody_else_gets_text(platform: Platform, front: Front, era: Era, meta: dict[str, Any]) -> None:
    file, messages = platform.file(), Collected[str]()
    file.touch()
    async with front.client(platform.team, "bench", era) as client:
        await recite(client, file, messages, meta)
    assert messages.items == ["waiting in attempt 1"]


@ERAS
async def test_the_capabilities_say_what_a_call_may_ask_for(platform: Platform, front: Front, era: Era) -> None:
    async with front.client(platform.team, "bench", era) as client:
        assert client.server_capabilities.experimental == {
            "pallas/idempotency-key": {},
            "pallas/cancel": {},
            "pallas/text-deltas": {},
        }


@asynccontextmanager
async def reciting(http: httpx.AsyncClient, url: str, file: Path) -> AsyncGenerator[wire.Stream]:
    """Call `recite` in the handshake era; leaving the block closes its stream."""
    meta = {"progressToken": "t", **ASK}
    params = {"name": "recite", "arguments": {"file": str(file)}, "_meta": meta}
    body, headers = wire.legacy("tools/call", params, await wire.shake_hands(http, url), request_id=7)
    async with wire.posted(http, url, (body, headers)) as stream:
        yield stream


def messages_of(received: Received) -> list[str]:
    return [message["params"].get("message", "") for message in received.messages if "method" in message]


async def test_a_broken_stream_is_resumed_with_the_rest_of_the_text(
    platform: Platform, front: Front, http: httpx.AsyncClient
) -> None:
    other = await platform.gateway("bench", log_key=KEY)
    received, file = Received(), platform.file()
    async with reciting(http, front.url(platform.team, "bench"), file) as stream:
        async for event in stream.events():
            received.events.append(event)
            if "waiting in attempt 1" in messages_of(received):
                break
    file.touch()
    await received.resume(http, other.url(platform.team, "bench"))
    assert len(set(received.ids)) == len(received.ids)
    text = text_of(messages_of(received))
    assert text.startswith("".join(f"{number} in attempt 1; " for number in range(1, 7)))
    assert text == written()[: len(text)]


async def test_a_call_with_the_same_key_gets_the_text_from_its_beginning(platform: Platform, front: Front) -> None:
    file, target = platform.file(), Target(front.url(platform.team, "bench"))
    pieces, progress, again = Collected[TextDelta](), Collected[Progress](), Collected[TextDelta]()

    async def on_progress(one: Progress) -> None:
        progress.add(one)

    async def on_text(piece: TextDelta) -> None:
        pieces.add(piece)

    async def on_text_again(piece: TextDelta) -> None:
        again.add(piece)

    def joined(found: Collected[TextDelta]) -> str:
        return "".join(piece.text for piece in found.items)

    async with AgentCalls() as calls:
        given = {"file": str(file)}
        first = asyncio.create_task(
            calls.call(target, "recite", given, key="one", on_progress=on_progress, on_text=on_text)
        )
        await progress.count(1)
        second = asyncio.create_task(calls.call(target, "recite", given, key="one", on_text=on_text_again))
        await again.until(lambda _: joined(again).endswith("5 in attempt 1; "))
        file.touch()
        answers = await soon(asyncio.gather(first, second))
        assert await calls.keeps_keys(target)
    assert {answer.text for answer in answers} == {written()}
    assert len({answer.turn_id for answer in answers}) == 1
    assert [one.message for one in progress.items] == ["waiting in attempt 1"], "text is no progress here"
    for found in (pieces, again):
        assert joined(found) == written()[: len(joined(found))]
