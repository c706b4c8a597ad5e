"""Calls beyond an agent's limits are refused early: beyond the places in its queue, or its turns per second."""

import asyncio
import statistics
from typing import Any

import httpx
import pytest
from tests.builders import turn_requested
from tests.e2e import wire
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.real_parts import Front, until
from tests.waiting import PATIENCE, eventually, soon, timing

from pallas_contracts.agents import Limits
from pallas_contracts.turns import Principal
from pallas_turns import positions as queue_positions
from pallas_turns.queue import ensure_consumer, queue_state, submit, turns_by_caller

PROXY = "127.0.0.1"
"""The address that these requests come from. They name their caller in a header."""

AGAIN = "Try again shortly."

ADA, BOB = "192.0.2.1", "192.0.2.2"

REFUSED_WITHIN = 0.05
"""Seconds for most refusals. All take at most four times that."""

SLOWLY = 0.02
"""Turns per second: so few that no second one is due during a test, even on a machine that pauses."""

type Result = dict[str, Any]


class Callers:
    """Callers of one agent, known by address to a gateway that trusts this machine as a proxy."""

    def __init__(self, platform: Platform, http: httpx.AsyncClient, front: Front) -> None:
        self.platform = platform
        self.http = http
        self.front = front
        self.calls: list[asyncio.Task[Result]] = []

    async def call(self, caller: str, tool: str = "wait", agent: str = "bench", **arguments: str) -> Result:
        """Call a tool and return its result."""
        body, headers = wire.modern("tools/call", {"name": tool, "arguments": arguments})
        request = (body, {**headers, "x-forwarded-for": caller})
        *_, last = await wire.answers(self.http, self.front.url(self.platform.team, agent), request)
        return last["result"]

    async def refused(self, caller: str, **arguments: str) -> Result:
        """Call a tool and expect a refusal. Returns the facts of the error and its text."""
        result = await soon(self.call(caller, **arguments))
        assert result["isError"]
        return {**result["_meta"]["pallas/error"], "text": result["content"][0]["text"]}

    async def wait(self, caller: str, number: int = 1) -> None:
        """Submit turns that no worker takes, and return once they wait."""
        token = Principal(id=caller).token
        for _ in range(number):
            self.calls.append(asyncio.create_task(self.call(caller)))
        await self.until_queued(token, number)

    async def until_queued(self, token: str, number: int) -> None:
        """Wait until a caller has that many turns in the queue."""
        bus, team = self.platform.bus, self.platform.team

        async def look() -> bool:
            return (await turns_by_caller(bus, team, "bench")).get(token, 0) >= number

        await until(look)

    async def leave(self) -> None:
        """Cancel all waiting calls."""
        for call in self.calls:
            call.cancel()
        await asyncio.gather(*self.calls, return_exceptions=True)

    def counted(self, limit: str) -> float:
        """How many calls a limit has refused."""
        return self.front.counted("pallas_calls_refused_total", team=self.platform.team, agent="bench", reason=limit)


async def callers_of(platform: Platform, http: httpx.AsyncClient, **limits: Any) -> Callers:
    """Callers of an agent that no worker hosts."""
    await platform.publish(limits=Limits(**limits))
    await ensure_consumer(platform.bus, platform.team, "bench", max_concurrency=None)
    front = await platform.gateway(trusted_proxies=PROXY)
    await platform.served(front)
    return Callers(platform, http, front)


async def waiting(platform: Platform) -> int:
    """How many turns wait."""
    return (await queue_state(platform.bus, platform.team, "bench")).waiting


@pytest.mark.usefixtures("asked_in_time")
async def test_a_call_beyond_max_queued_is_refused_and_nothing_is_queued(
    platform: Platform, http: httpx.AsyncClient
) -> None:
    callers = await callers_of(platform, http, max_queued=5)
    for _ in range(2):
        await submit(platform.bus, turn_requested(platform.team, "bench"))
    await callers.wait(ADA, 2)
    await callers.wait(BOB, 1)
    error = await callers.refused(BOB)
    assert error["text"] == "busy: Too many turns of this agent are waiting; the limit is 5. " + AGAIN
    assert (error["code"], error["retryable"], error["retry_after_ms"]) == ("busy", True, 1000)
    assert await waiting(platform) == 5
    assert callers.counted("queue") == 1
    await callers.leave()


async def test_one_caller_gets_at_most_half_of_the_queue(platform: Platform, http: httpx.AsyncClient) -> None:
    callers = await callers_of(platform, http, max_queued=7)
    await callers.wait(ADA, 3)
    error = await callers.refused(ADA)
    assert error["text"] == (
        f"busy: Too many of your turns of this agent are waiting; the limit is 3 per caller. {AGAIN}"
    )
    assert error["retry_after_ms"] == 1000
    await callers.wait(BOB, 3)
    assert await waiting(platform) == 6
    assert (callers.counted("caller"), callers.counted("queue")) == (1, 0)
    await callers.leave()


async def test_concurrent_calls_cannot_exceed_the_limit(platform: Platform, http: httpx.AsyncClient) -> None:
    callers = await callers_of(platform, http, max_queued=10)
    calls = {asyncio.create_task(callers.call(ADA)) for _ in range(50)}
    refused: set[asyncio.Task[Result]] = set()
    while len(refused) < 45:
        done, _ = await asyncio.wait(calls - refused, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        assert done, f"only {len(refused)} were refused"
        refused |= done
    await callers.until_queued(Principal(id=ADA).token, 5)
    assert await waiting(platform) == 5
    callers.calls = list(calls)
    await callers.leave()


@pytest.mark.usefixtures("asked_in_time")
async def test_turns_waiting_through_another_gateway_count_towards_a_callers_limit(
    platform: Platform, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_positions, "SHARED_FOR", 0.0)
    callers = await callers_of(platform, http, max_queued=6)
    other = Callers(platform, http, await platform.gateway(trusted_proxies=PROXY))
    await platform.served(other.front)
    await callers.wait(ADA, 2)
    other.calls.append(asyncio.create_task(other.call(ADA)))
    await callers.until_queued(Principal(id=ADA).token, 3)
    for each in (callers, other):
        assert "per caller" in (await each.refused(ADA))["text"]
    await other.wait(BOB)
    assert await waiting(platform) == 4
    await callers.leave()
    await other.leave()


async def test_turns_that_leave_the_queue_make_room_for_their_caller(
    platform: Platform, http: httpx.AsyncClient
) -> None:
    callers = await callers_of(platform, http, max_queued=2)
    await callers.wait(ADA)
    await callers.refused(ADA)
    await callers.leave()

    async def gone() -> bool:
        return not await waiting(platform)

    await until(gone)
    await callers.wait(ADA)
    await callers.leave()


async def test_forwarded_addresses_are_ignored_without_a_trusted_proxy(
    platform: Platform, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    callers = await callers_of(platform, http, max_queued=2)
    callers.front = await platform.gateway()
    await platform.served(callers.front)
    callers.calls.append(asyncio.create_task(callers.call(ADA)))
    await callers.until_queued(Principal(id=PROXY).token, 1)
    assert "per caller" in (await callers.refused(BOB))["text"]
    await callers.leave()


@pytest.mark.parametrize(
    ("limits", "limit", "text"),
    [
        ({"max_rate": SLOWLY}, "rate", "busy: This agent accepts at most 0.02 turns per second."),
        (
            {"max_rate_per_caller": SLOWLY},
            "caller_rate",
            "busy: This agent accepts at most 0.02 turns per second from each caller.",
        ),
    ],
)
async def test_calls_above_the_rate_are_refused_until_the_next_is_due(
    alone: Platform, http: httpx.AsyncClient, limits: dict[str, float], limit: str, text: str
) -> None:
    callers = await callers_of(alone, http, **limits)
    await callers.wait(ADA)
    error = await callers.refused(ADA)
    assert error["text"] == f"{text} {AGAIN}"
    assert error["code"] == "busy"
    assert 0 < error["retry_after_ms"] <= 50_000
    assert callers.counted(limit) == 1
    assert await waiting(alone) == 1
    if limit == "rate":
        assert "turns per second" in (await callers.refused(BOB))["text"]
    else:
        await callers.wait(BOB)
    await callers.leave()


async def test_each_gateway_enforces_its_share_of_a_rate(alone: Platform, http: httpx.AsyncClient) -> None:
    callers = await callers_of(alone, http, max_rate=SLOWLY)
    other = await alone.gateway()
    for front in (callers.front, other):
        await eventually(lambda front=front: front.gateway.calls.admission.rates.processes() == 2)
    await callers.wait(ADA)
    error = await callers.refused(ADA)
    assert "at most 0.02 turns per second" in error["text"]
    assert 50_000 < error["retry_after_ms"] <= 100_000, "the next would be due in half of that if it were alone"
    await callers.leave()


async def test_a_refusal_takes_only_milliseconds(platform: Platform, http: httpx.AsyncClient) -> None:
    callers = await callers_of(platform, http, max_queued=2, max_rate=1000)
    await callers.wait(ADA)
    took: list[float] = []
    for _ in range(100):
        async with timing() as watch:
            await callers.refused(ADA)
        took.append(watch.seconds)
    assert statistics.median(took) < REFUSED_WITHIN, took
    assert max(took) < 4 * REFUSED_WITHIN, took
    await callers.leave()
