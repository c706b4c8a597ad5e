"""Waits until every agent can be called, and until the dependencies of a team answer.

Ready processes are not enough: a worker publishes its agents when it starts, and gateways and the registry receive them
a moment later.
"""

import asyncio
import importlib
from typing import TYPE_CHECKING

from pallas_cli.processes.probes import is_known
from pallas_cli.processes.supervisor import StartTimeout
from pallas_cli.refused import Refused
from pallas_cli.stack.plan import Plan
from pallas_cli.team_folders import TeamSummary

if TYPE_CHECKING:
    from pallas_bus.access import Access
    from pallas_bus.connection import Bus

_INTERVAL = 0.05


async def until_agents_answer(plan: Plan, timeout: float) -> None:
    """Wait until the registry lists every team and every gateway knows every agent.

    Raises:
        StartTimeout: an address does not answer within `timeout` seconds; the message names the first.
    """
    listings = [f"{plan.url('registry')}/teams/{team.name}/.well-known/mcp/server.json" for team in plan.teams]
    endpoints = [
        f"{gateway}/teams/{team.name}/mcp/{agent}"
        for gateway in plan.gateway_urls
        for team in plan.teams
        for agent in team.agents
    ]
    deadline = asyncio.get_running_loop().time() + timeout
    for url in (*listings, *endpoints):
        try:
            async with asyncio.timeout_at(deadline):
                await _until_known(url)
        except TimeoutError:
            raise StartTimeout(f"{url} does not answer; the workers' logs say why") from None


async def until_healthy(access: "Access", team: TeamSummary, timeout: float) -> None:
    """Ask the health-monitor to probe the agents of a team until all are healthy.

    It probes the dependencies of the current definitions. When they are healthy, workers have read the current folder.

    Raises:
        Refused: an agent is still not healthy after `timeout` seconds.
    """
    await asyncio.to_thread(importlib.import_module, "pallas_bus.ask")
    from pallas_cli.broker import platform

    async with platform(access) as bus:
        for agent in team.agents:
            await _until_healthy(bus, team.name, agent, asyncio.get_running_loop().time() + timeout)


async def _until_healthy(bus: "Bus", team: str, agent: str, deadline: float) -> None:
    from pallas_bus.ask import ask
    from pallas_contracts.catalog import CHECK_HEALTH
    from pallas_contracts.errors import PallasError
    from pallas_contracts.health import HealthAsked

    missing: str | None = None
    while asyncio.get_running_loop().time() < deadline:
        try:
            health = await ask(bus, CHECK_HEALTH, HealthAsked(team=team, agent=agent), team=team, agent=agent)
        except PallasError as error:
            missing = error.message
        else:
            missing = health.message
            if health.status == "ok":
                return
        await asyncio.sleep(_INTERVAL)
    raise Refused(f"{agent!r} is not healthy: {missing or 'no reason is known'}")


async def _until_known(url: str) -> None:
    while not await is_known(url)():  # noqa: ASYNC110 - a probe
        await asyncio.sleep(_INTERVAL)
