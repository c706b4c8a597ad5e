"""An agent's allow list applies to every request to it, and to no other agent."""

import httpx
import pytest
from mcp.shared.exceptions import MCPError
from tests.integration.agent_gateway.bearers import (
    REQUESTS,
    TEAM,
    TEAMS,
    TOKEN,
    TOKENS,
    TURNS,
    Bearers,
    client,
    header_of,
)
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.real_parts import Front
from tests.waiting import eventually, soon

from pallas_contracts.agents import Allow
from pallas_contracts.turns import Claimed

ELSE = "8a9e2f5c-0000-4000-8000-0000000000ff"
LISTED = REQUESTS["modern list"]
BEARERS = {"team": TEAMS, "token": TOKENS, "turn": TURNS}


async def statuses(http: httpx.AsyncClient, url: str) -> dict[str, int]:
    """The status for each caller. `nobody` has no bearer."""
    got = {name: (await LISTED.to(http, url, header_of(bearer))).status_code for name, bearer in BEARERS.items()}
    return got | {"nobody": (await LISTED.to(http, url)).status_code}


CASES: list[tuple[Allow | None, set[str]]] = [
    (None, {"team", "token", "turn", "nobody"}),
    (Allow(), set[str]()),
    (Allow(types=("team",)), {"team"}),
    (Allow(types=("peer", "turn")), {"turn", "nobody"}),
    (Allow(teams=(TEAM.id,)), {"team"}),
    (Allow(teams=(ELSE,)), set[str]()),
    (Allow(teams=(TOKEN.id,), tokens=(TEAM.id,)), set[str]()),
    (Allow(tokens=(TOKEN.id,), teams=(ELSE,)), {"token"}),
    (Allow(types=("turn",), teams=(TEAM.id,), tokens=(TOKEN.id,)), {"team", "token", "turn"}),
]


async def test_an_agent_is_served_only_to_callers_on_its_allow_list(
    platform: Platform, bearers: Bearers, http: httpx.AsyncClient
) -> None:
    assert bearers.held
    front = await platform.gateway(gateway_auth="optional")
    for number, (allow, let_in) in enumerate(CASES):
        agent = f"agent-{number}"
        await platform.publish(agent, allow=allow)
        await platform.served(front, agent)
        expected = {name: 200 if name in let_in else 403 for name in BEARERS}
        # A caller without a bearer gets the challenge.
        expected["nobody"] = 200 if "nobody" in let_in else 401
        assert await statuses(http, front.url(platform.team, agent)) == expected, allow
        away = sum(status == 403 for status in expected.values())
        assert front.counted("pallas_callers_refused_total", team=platform.team, agent=agent) == away, allow


async def test_the_allow_list_applies_to_every_request(
    platform: Platform, bearers: Bearers, http: httpx.AsyncClient
) -> None:
    assert bearers.held
    await platform.publish(allow=Allow(teams=(ELSE,)))
    front = await platform.gateway("bench", gateway_auth="required")
    for name, request_of in REQUESTS.items():
        answer = await request_of.to(http, front.url(platform.team, "bench"), header_of(TEAMS))
        assert answer.status_code == 403, name
        assert answer.json()["error"]["message"] == "This caller may not call the agent 'bench'.", name


async def test_the_official_client_gets_the_reason_when_the_allow_list_excludes_it(
    platform: Platform, bearers: Bearers
) -> None:
    assert bearers.held
    await platform.publish(allow=Allow(tokens=(ELSE,)))
    front = await platform.gateway("bench", gateway_auth="required")
    refusal = pytest.RaisesExc(MCPError, match="This caller may not call")
    with pytest.RaisesGroup(refusal, flatten_subgroups=True, allow_unwrapped=True):
        async with client(front.url(platform.team, "bench"), TOKENS):
            pass


async def test_without_authentication_an_allow_list_admits_only_peers(
    platform: Platform, bearers: Bearers, http: httpx.AsyncClient
) -> None:
    await platform.publish(allow=Allow(types=("team", "token", "turn")))
    await platform.publish("open", allow=Allow(types=("peer",)))
    front = await platform.gateway("bench")
    await platform.served(front, "open")
    assert set((await statuses(http, front.url(platform.team, "bench"))).values()) == {403}
    assert set((await statuses(http, front.url(platform.team, "open"))).values()) == {200}
    assert not bearers.asked


async def test_a_changed_allow_list_applies_to_the_next_request(
    platform: Platform, bearers: Bearers, http: httpx.AsyncClient
) -> None:
    assert bearers.held
    await platform.publish(allow=Allow(teams=(TEAM.id,)))
    front = await platform.gateway("bench", gateway_auth="required")
    url = front.url(platform.team, "bench")
    assert (await LISTED.to(http, url, header_of(TEAMS))).json()["result"]["cacheScope"] == "private"
    await platform.publish(allow=Allow(teams=(ELSE,)))
    await eventually(lambda: _allowed(front, platform.team) == Allow(teams=(ELSE,)))
    assert (await LISTED.to(http, url, header_of(TEAMS))).status_code == 403
    await platform.publish()
    await eventually(lambda: _allowed(front, platform.team) is None)
    assert (await LISTED.to(http, url, header_of(TEAMS))).status_code == 200


def _allowed(front: Front, team: str) -> Allow | None:
    found = front.gateway.http.endpoints.find(team, "bench")
    assert not isinstance(found, str)
    return found.agent.definition.allow


async def test_the_allow_list_of_a_team_folder_reaches_the_gateway(platform: Platform, bearers: Bearers) -> None:
    assert bearers.held
    allow = f"title: Bench\n    allow: {{teams: [{TEAM.id.upper()}]}}\n"
    await platform.worker(lambda text: text.replace("title: Bench\n", allow))
    front = await platform.gateway("bench", gateway_auth="required")
    async with client(front.url(platform.team, "bench"), TEAMS) as caller:
        assert not (await soon(caller.call_tool("say", {}))).is_error
    assert isinstance((await platform.claim(Claimed)).claim, Claimed)
    with pytest.RaisesGroup(pytest.RaisesExc(MCPError), flatten_subgroups=True, allow_unwrapped=True):
        async with client(front.url(platform.team, "bench"), TOKENS):
            pass
