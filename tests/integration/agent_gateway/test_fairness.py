"""One noisy agent does not delay the others: its turns wait behind each other, not in front of theirs."""

import asyncio
import statistics
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.builders import turn_requested
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.processes import a_service
from tests.integration.real_parts import a_lab, until

from pallas_bus.turn_queue import QueueState, queue_state, submit
from pallas_contracts.turns import Principal

NOISY, QUIET = 400, 5
NOISY_AGENT, QUIET_AGENT = "bench", "sure"

ALLOWANCE = 0.1
"""Seconds more than twice the idle time."""

ROUNDS = 8
"""A machine that is busy with other tests delays everybody; one round without that is enough."""


async def test_turns_of_a_noisy_agent_in_front_do_not_delay_those_of_a_quiet_one(
    platform: Platform, tmp_path: Path
) -> None:
    folder = a_lab(platform.folder, platform.team)
    async with AsyncExitStack() as stack:
        started = [a_service("agent_worker", platform.url, tmp_path, f"w{n}", teams=str(folder)) for n in range(2)]
        workers = [await stack.enter_async_context(worker) for worker in started]
        await asyncio.gather(*(worker.ready() for worker in workers))
        front = await platform.gateway()
        await platform.served(front, QUIET_AGENT)
        client = await stack.enter_async_context(front.client(platform.team, QUIET_AGENT))

        async def ask() -> float:
            began = time.monotonic()
            assert not (await client.call_tool("think", {})).is_error
            return time.monotonic() - began

        async def ask_all() -> list[float]:
            return await asyncio.gather(*(ask() for _ in range(QUIET)))

        async def noise() -> None:
            request = turn_requested(platform.team, NOISY_AGENT, tool="think", arguments={})
            await submit(platform.bus, request.model_copy(update={"principal": Principal(id="somebody else")}))

        async def queue() -> QueueState:
            return await queue_state(platform.bus, platform.team, NOISY_AGENT)

        async def quiet_again() -> bool:
            state = await queue()
            return not state.waiting and not state.running

        rounds: list[tuple[float, float]] = []
        while len(rounds) < ROUNDS:
            await ask_all()
            idle = statistics.median(await ask_all())
            await asyncio.gather(*(noise() for _ in range(NOISY)))
            rounds.append((idle, max(await ask_all())))
            assert (await queue()).waiting > NOISY / 4, "too much of the noise was over to show anything"
            if rounds[-1][1] < 2 * idle + ALLOWANCE:
                break
            await until(quiet_again, 60)
        else:
            pytest.fail(f"idle and slowest, in seconds: {rounds}")
