"""A call that was refused or left before it was queued is never executed: a cancel is stored first."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, override

import httpx
import pytest
from tests.builders import turn_requested
from tests.conftest import Connecting
from tests.e2e import wire
from tests.embedded import NatsServer
from tests.integration.agent_gateway.conftest import Platform, make_platform
from tests.integration.bus.turns import lifetimes
from tests.integration.real_parts import Front
from tests.waiting import PATIENCE, Collected, eventually, soon, within

from pallas_bus.connection import Bus
from pallas_bus.errors import Stored
from pallas_contracts.agents import Limits
from pallas_contracts.catalog import TURN_OBJECTS
from pallas_contracts.errors import Unavailable
from pallas_contracts.turns import CancelRequested, Claimed, TurnRequested
from pallas_turns import calls as service
from pallas_turns import submit as submit_turn
from pallas_turns.claims import TurnRef
from pallas_turns.content import OFFLOAD_ABOVE, objects_of, offload_request, whole_request
from pallas_turns.model import Observer, Refusal
from pallas_turns.queue import submit
from pallas_turns.submit import Submitted

REFUSED_WITHIN = 4.0


@pytest.fixture
async def alone(nats_server: NatsServer, bus: Connecting, team: str, tmp_path: Path) -> AsyncGenerator[Platform]:
    """A platform on a broker of the test's own."""
    connection = await bus("agent-gateway", url=nats_server.url)
    async for made in make_platform(connection, nats_server.url, team, tmp_path):
        yield made


@pytest.fixture
async def front(alone: Platform) -> Front:
    """A gateway with a worker."""
    await alone.worker()
    front = await alone.gateway()
    await alone.served(front)
    return front


@contextmanager
def stalled(server: NatsServer) -> Generator[None]:
    """Freeze the broker inside the block, with its connections open."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


async def nothing_ran(platform: Platform) -> None:
    """Fail unless the first turn of the team is cancelled before any worker has it, and stays so."""
    cancel = await platform.claim(CancelRequested)
    assert (await platform.outcome(cancel)).status == "cancelled"
    assert not [claimed for claimed in platform.claims.items if isinstance(claimed.claim, Claimed)]


async def test_a_call_refused_while_the_broker_was_frozen_is_never_executed(
    alone: Platform, front: Front, nats_server: NatsServer
) -> None:
    async with front.client(alone.team, "bench") as client:
        with stalled(nats_server):
            async with within(REFUSED_WITHIN):
                result = await soon(client.call_tool("say", {"text": "lost"}))
        facts = (result.meta or {})["pallas/error"]
        assert (facts["code"], facts["retry_after_ms"]) == ("busy", 1000)
        await nothing_ran(alone)
        assert (await alone.claim(CancelRequested)).turn_id == facts["turn_id"]


async def test_a_call_without_a_confirmation_is_sent_again_and_executed_once(
    alone: Platform, front: Front, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Collected[str]()

    async def putting(bus: Bus, request: TurnRequested) -> Stored:
        put.add(request.turn_id)
        return await submit(bus, request)

    monkeypatch.setattr(submit_turn, "submit", putting)
    monkeypatch.setattr(submit_turn, "SUBMIT_TIMEOUT", PATIENCE)
    async with front.client(alone.team, "bench") as client:
        await client.list_tools()
        with stalled(nats_server):
            calling = asyncio.create_task(client.call_tool("say", {"text": "late"}))
            await put.count(2)
        assert not (await soon(calling)).is_error
    assert len([claimed for claimed in alone.claims.items if isinstance(claimed.claim, Claimed)]) == 1


async def test_a_modern_caller_that_leaves_during_submission_cancels_its_call(
    alone: Platform, front: Front, nats_server: NatsServer, http: httpx.AsyncClient
) -> None:
    body, headers = wire.modern("tools/call", {"name": "say", "arguments": {"text": "gone"}})
    with stalled(nats_server):
        posting = asyncio.create_task(http.post(front.url(alone.team, "bench"), json=body, headers=headers))
        await eventually(lambda: front.counted("pallas_turns_in_flight") == 1)
        posting.cancel()
        await asyncio.wait({posting})
        await eventually(lambda: front.counted("pallas_turns_in_flight") == 0)
    await nothing_ran(alone)


@pytest.mark.parametrize("admitted", [False, True])
async def test_a_caller_that_leaves_cancels_its_turn_only_if_there_may_be_one(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, admitted: bool
) -> None:
    cancelled, reached = list[TurnRef](), asyncio.Event()

    async def waits(*_: object, **__: object) -> Submitted:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def cancel(_bus: Bus, ref: TurnRef, *_: object) -> None:
        cancelled.append(ref)

    class Leaves(Observer):
        @override
        async def on_admitted(self) -> None:
            if not admitted:
                await waits()

        @override
        def caller_left(self) -> bool:
            return True

    monkeypatch.setattr(service, "submit_turn", waits)
    monkeypatch.setattr(service, "cancel_turn", cancel)
    calls, request = (await platform.gateway()).gateway.calls, turn_requested(platform.team)
    call = asyncio.create_task(calls.call(request, Limits(), Leaves()))
    await soon(reached.wait())
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await asyncio.sleep(0)  # a cancel is written in the background
    assert cancelled == ([TurnRef.of(request)] if admitted else [])


BIG = "x" * OFFLOAD_ABOVE


@pytest.mark.parametrize(
    ("code", "made", "mine"),
    [("queue_full", False, []), ("unavailable", False, [3600]), ("unavailable", True, [None])],
    ids=["not stored", "not found", "made"],
)
async def test_what_a_refused_call_with_a_key_offloaded_is_kept_only_as_long_as_its_turn_may_need_it(
    platform: Platform, monkeypatch: pytest.MonkeyPatch, code: str, made: bool, mine: list[int | None]
) -> None:
    finished, retry = Collected[str](), submit_turn.retry_while_unavailable

    async def refuse(bus: Bus, request: TurnRequested) -> Stored:
        if made:
            await submit(bus, request)
        raise Unavailable("no confirmation", code=code)

    async def retried[T](attempt: Callable[[], Awaitable[T]], what: str, **settings: Any) -> T:
        try:
            return await retry(attempt, what, **settings)
        finally:
            finished.add(what)

    monkeypatch.setattr(submit_turn, "submit", refuse)
    monkeypatch.setattr(submit_turn, "retry_while_unavailable", retried)
    monkeypatch.setattr(submit_turn, "SUBMIT_TIMEOUT", 0.2)
    front = await platform.gateway()
    request = turn_requested(platform.team, "bench", arguments={"text": BIG}).model_copy(update={"digest": "d" * 32})
    other = await offload_request(platform.bus, request, "other")
    refused = await submit_turn.submit_turn(platform.bus, front.gateway.calls.feeds, request)
    assert isinstance(refused, Refusal)
    assert await finished.count(2) == ["submit the turn", "remove offloaded content"]
    found = await lifetimes(platform.bus, TURN_OBJECTS, objects_of(TurnRef.of(request)))
    assert sorted(found, key=str) == sorted([None, *mine], key=str)
    assert await whole_request(platform.bus, other) == request
