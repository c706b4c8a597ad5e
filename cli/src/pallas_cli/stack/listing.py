"""Waiting until every agent can be called.

Ready processes are not enough: a worker publishes its agents when it starts, and gateways and the registry learn of
them a moment later.
"""

import asyncio
from collections.abc import Sequence

from pallas_cli.stack.plan import Plan
from pallas_cli.stack.probes import http_status
from pallas_cli.stack.supervisor import StartTimeout
from pallas_cli.stack.teams import TeamSummary

_INTERVAL = 0.05
_UNKNOWN = frozenset({0, 404, 503})


async def until_agents_answer(plan: Plan, teams: Sequence[TeamSummary], timeout: float) -> None:
    """Wait until the registry lists every team and every gateway knows every agent.

    Raises:
        StartTimeout: naming the first address that still does not answer after `timeout` seconds.
    """
    listings = [f"{plan.registry_url}/teams/{team.name}/.well-known/mcp/server.json" for team in teams]
    endpoints = [
        f"{gateway}/teams/{team.name}/mcp/{agent}"
        for gateway in plan.gateway_urls
        for team in teams
        for agent in team.agents
    ]
    deadline = asyncio.get_running_loop().time() + timeout
    for url in (*listings, *endpoints):
        try:
            async with asyncio.timeout_at(deadline):
                await _until_known(url)
        except TimeoutError:
            raise StartTimeout(f"{url} does not answer; the workers' logs say why") from None


async def _until_known(url: str) -> None:
    while await http_status(url) in _UNKNOWN:  # noqa: ASYNC110 - a probe
        await asyncio.sleep(_INTERVAL)
