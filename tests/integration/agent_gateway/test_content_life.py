"""Content is kept for the set time, whichever gateway runs when it expires."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.agent_gateway.conftest import Platform, make_platform
from tests.integration.real_parts import a_gateway, a_lab, a_worker, until
from tests.waiting import soon

from pallas_bus.reads import read
from pallas_contracts.catalog import (
    DEAD_LETTERS,
    GATEWAY,
    KEPT_REQUEST,
    TURN_CONTENT,
    TURN_LOG,
    TURN_OBJECTS,
    TURN_QUEUE,
)
from pallas_contracts.turns import Claimed, TurnOutcome
from pallas_turns import write as writer
from pallas_turns.claims import TurnRef
from pallas_turns.content import objects_of

BIG = "x" * 1_000_000


@pytest.fixture
async def alone(bus: Connecting, team: str, tmp_path: Path) -> AsyncGenerator[Platform]:
    """A platform on a broker of its own."""
    with NatsServer() as server:
        async for made in make_platform(await bus(GATEWAY, url=server.url), server.url, team, tmp_path):
            yield made


async def hosted(platform: Platform, *, content_seconds: str) -> None:
    """Run a worker that keeps content for `content_seconds`."""
    folder = a_lab(platform.folder, platform.team)
    await platform.stack.enter_async_context(a_worker(platform.url, folder, content_seconds=content_seconds))


async def content(platform: Platform, outcome: TurnOutcome) -> dict[str, int]:
    """The number of stored messages and parts, by kind of content."""
    ref = TurnRef(outcome.team, outcome.agent, outcome.turn_id)
    filters = {
        "said": (TURN_LOG, ref.on(TURN_CONTENT.template)),
        "request": (TURN_LOG, ref.on(KEPT_REQUEST.template)),
        "parts": (TURN_OBJECTS, objects_of(ref)),
    }
    counts = {
        kind: len([record async for record in read(platform.bus, stream.name, subject)])
        for kind, (stream, subject) in filters.items()
    }
    return {kind: count for kind, count in counts.items() if count}


async def test_content_expires_even_when_the_gateway_of_its_turn_has_ended(
    alone: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LEAST_CONTENT_TTL", 1.0)
    await hosted(alone, content_seconds="3")
    async with AsyncExitStack() as first:
        front = await first.enter_async_context(a_gateway(alone.url))
        await alone.served(front)
        async with front.client(alone.team, "bench") as client:
            assert not (await soon(client.call_tool("say", {"text": BIG}))).is_error
        outcome = await alone.outcome(await alone.claim(Claimed))
        assert set(await content(alone, outcome)) == {"said", "request", "parts"}
    await alone.gateway()

    async def gone() -> bool:
        return not await content(alone, outcome)

    await until(gone, within=20)


async def test_no_request_is_kept_for_a_replay_when_content_is_not_to_be_kept(alone: Platform) -> None:
    await hosted(alone, content_seconds="0")
    front = await alone.gateway()
    await alone.served(front)
    async with front.client(alone.team, "bench") as client:
        assert not (await soon(client.call_tool("say", {"text": "hello"}))).is_error
    outcome = await alone.outcome(await alone.claim(Claimed))
    assert set(await content(alone, outcome)) == {"said"}


async def test_events_are_kept_for_the_set_days_and_offloaded_content_at_most_a_day_longer(
    alone: Platform,
) -> None:
    await alone.gateway(event_days="0.5")
    ages = {
        stream.name: (await alone.bus.api(f"STREAM.INFO.{stream.name}", {}))["config"]["max_age"] / 1e9
        for stream in (TURN_LOG, DEAD_LETTERS, TURN_OBJECTS, TURN_QUEUE)
    }
    assert ages == {"TURN_LOG": 43_200, "DEAD_LETTERS": 43_200, "TURN_OBJECTS": 129_600, "TURN_QUEUE": 0}
