"""One noisy agent does not delay the others: its turns wait behind each other, not in front of theirs."""

import asyncio
import statistics
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from mcp import Client
from tests.builders import turn_requested
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.processes import a_service
from tests.integration.real_parts import until

from pallas_bus.turn_queue import QueueState, queue_state, submit
from pallas_contracts.turns import Principal

NOISY, QUIET = 400, 5
MODEL_TIME = "/sleep 0.2"

AGENTS = """\
name: {team}
version: 1.0.0
namespace: local.pallas
agents:
  noisy: {{instruction: Answer.}}
  quiet: {{instruction: Answer.}}
"""

ROUNDS = 5
"""A machine that is busy with other things delays everybody; one round without that is enough."""


async def test_turns_of_a_noisy_agent_in_front_do_not_delay_those_of_a_quiet_one(
    platform: Platform, tmp_path: Path
) -> None:
    platform.folder.mkdir()
    (platform.folder / "agents.yaml").write_text(AGENTS.format(team=platform.team), "utf-8")
    (platform.folder / "fastagent.config.yaml").write_text("default_model: offline\n", "utf-8")
    async with AsyncExitStack() as stack:
        teams = str(platform.folder)
        started = [a_service("agent_worker", platform.url, tmp_path, f"w{n}", teams=teams) for n in range(2)]
        workers = [await stack.enter_async_context(worker) for worker in started]
        await asyncio.gather(*(worker.ready() for worker in workers))
        front = await platform.gateway()
        await platform.served(front, "quiet")
        client = await stack.enter_async_context(front.client(platform.team, "quiet"))
        rounds: list[tuple[float, float]] = []
        while len(rounds) < ROUNDS:
            await _ask_all(client)
            idle = statistics.median(await _ask_all(client))
            await asyncio.gather(*(_make_noise(platform) for _ in range(NOISY)))
            rounds.append((idle, max(await _ask_all(client))))
            assert (await _queue(platform)).waiting > NOISY / 4, "too much of the noise was over to show anything"
            if rounds[-1][1] < 2 * idle:
                break
            await until(lambda: _calm(platform), 60)
        else:
            pytest.fail(f"idle and slowest, in seconds: {rounds}")


async def _ask_all(client: Client) -> list[float]:
    """Seconds that each of the quiet agent's turns takes, all at a time."""
    return await asyncio.gather(*(_ask(client) for _ in range(QUIET)))


async def _ask(client: Client) -> float:
    began = time.monotonic()
    assert not (await client.call_tool("quiet", {"message": MODEL_TIME})).is_error
    return time.monotonic() - began


async def _make_noise(platform: Platform) -> None:
    request = turn_requested(platform.team, "noisy", arguments={"message": MODEL_TIME})
    await submit(platform.bus, request.model_copy(update={"principal": Principal(id="somebody else")}))


async def _queue(platform: Platform) -> QueueState:
    return await queue_state(platform.bus, platform.team, "noisy")


async def _calm(platform: Platform) -> bool:
    state = await _queue(platform)
    return not state.waiting and not state.running
