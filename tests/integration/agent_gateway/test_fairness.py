"""The backlog of one noisy agent does not delay the turns of others."""

import asyncio
import statistics
import time
from contextlib import AsyncExitStack
from pathlib import Path

from mcp import Client
from tests.builders import turn_requested
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.processes import a_service

from pallas_contracts.turns import Principal
from pallas_turns.queue import queue_state, submit

NOISY, QUIET, SLOTS = 400, 5, 20
MODEL_TIME = "/sleep 0.2"
PATIENCE = 60.0

AGENTS = """\
name: {team}
version: 1.0.0
namespace: local.pallas
agents:
  noisy: {{instruction: Answer.}}
  quiet: {{instruction: Answer.}}
"""


async def test_a_backlog_of_a_noisy_agent_does_not_delay_a_quiet_one(platform: Platform, tmp_path: Path) -> None:
    """A busy machine delays every agent, so the quiet one is called again behind as many noisy turns.

    If its turns waited behind that, they would take ten times as long each time.
    """
    platform.folder.mkdir()
    (platform.folder / "agents.yaml").write_text(AGENTS.format(team=platform.team), "utf-8")
    (platform.folder / "fastagent.config.yaml").write_text("default_model: offline\n", "utf-8")
    worker_settings = {"teams": str(platform.folder), "slots": str(SLOTS)}
    async with AsyncExitStack() as stack:
        started = [a_service("agent_worker", platform.url, tmp_path, f"w{n}", **worker_settings) for n in range(2)]
        workers = [await stack.enter_async_context(worker) for worker in started]
        await asyncio.gather(*(worker.ready() for worker in workers))
        front = await platform.gateway()
        await platform.served(front, "quiet")
        client = await stack.enter_async_context(front.client(platform.team, "quiet"))
        await _ask_all(client)
        idle = statistics.median(await _ask_all(client))
        slowest: list[float] = []
        async with asyncio.timeout(PATIENCE):
            while not slowest or slowest[-1] >= 2 * idle:
                await _make_noise(platform)
                slowest.append(max(await _ask_all(client)))
                print(f"idle {idle:.3f} s, behind the noise {slowest[-1]:.3f} s")


async def _ask_all(client: Client) -> list[float]:
    """Seconds that each of the quiet agent's turns takes, all at once."""
    return await asyncio.gather(*(_ask(client) for _ in range(QUIET)))


async def _ask(client: Client) -> float:
    began = time.monotonic()
    assert not (await client.call_tool("quiet", {"message": MODEL_TIME})).is_error
    return time.monotonic() - began


async def _make_noise(platform: Platform) -> None:
    """Submit noisy turns until that many wait."""
    waiting = (await queue_state(platform.bus, platform.team, "noisy")).waiting
    await asyncio.gather(*(_make_one(platform) for _ in range(NOISY - waiting)))


async def _make_one(platform: Platform) -> None:
    request = turn_requested(platform.team, "noisy", arguments={"message": MODEL_TIME})
    await submit(platform.bus, request.model_copy(update={"principal": Principal(id="somebody else")}))
