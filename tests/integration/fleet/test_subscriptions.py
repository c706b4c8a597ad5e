"""Changes of agents and tasks are told to clients that subscribed to them, in both eras and by any gateway."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from mcp import Client, MCPError
from mcp.server.subscriptions import ResourceUpdated
from mcp_types import EmptyResult, ResourceUpdatedNotification, SubscribeRequest, SubscribeRequestParams
from tests.integration.fleet.lab import Lab
from tests.integration.fleet.test_gateway import a_front
from tests.integration.real_parts import Front
from tests.waiting import Collected, eventually, soon

from agent_gateway.handshake.sessions import MOST_SUBSCRIPTIONS
from agent_gateway.mcp.request import session_token
from pallas_bus.ask import announce_change
from pallas_bus.kv import put
from pallas_contracts.agents import JsonObject
from pallas_contracts.catalog import FLEET_AGENT, FLEET_TEAM, SESSIONS, LegacySession
from pallas_contracts.errors import Rejected
from pallas_contracts.turns import Principal

VISIBLE_SECONDS = 0.5
AGENTS = "fleet://agents"


@asynccontextmanager
async def modern(front: Front, told: Collected[str], *uris: str) -> AsyncGenerator[Client]:
    """A client with a stream of changes."""
    async with (
        front.client(FLEET_TEAM, FLEET_AGENT) as client,
        client.listen(resource_subscriptions=uris) as changes,
    ):
        assert changes.honored.resource_subscriptions == [uri for uri in uris if "nobody" not in uri]

        async def read() -> None:
            async for event in changes:
                assert isinstance(event, ResourceUpdated)
                told.add(event.uri)

        reading = asyncio.create_task(read())
        yield client
        reading.cancel()


async def subscribe(client: Client, uri: str) -> None:
    """Subscribe the client's session."""
    await client.session.send_request(SubscribeRequest(params=SubscribeRequestParams(uri=uri)), EmptyResult)


@asynccontextmanager
async def handshake(front: Front, told: Collected[str], *uris: str) -> AsyncGenerator[Client]:
    """A client of the handshake era, whose session subscribes."""

    async def heard(message: object) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            told.add(str(message.params.uri))

    async with front.client(FLEET_TEAM, FLEET_AGENT, "legacy", message_handler=heard) as client:
        for uri in uris:
            if "nobody" in uri:
                with pytest.raises(MCPError, match="does not exist"):
                    await subscribe(client, uri)
            else:
                await subscribe(client, uri)
        yield client


@pytest.mark.parametrize("era", [modern, handshake])
async def test_a_client_hears_of_the_agents_and_tasks_that_it_subscribed_to(lab: Lab, era: Any) -> None:
    await lab.replica(fleet_extras="true")
    name, other = await lab.create(), await lab.create()
    agent, told = f"{AGENTS}/{name}", Collected[str]()
    clock = asyncio.get_running_loop().time
    async with a_front(lab) as front, era(front, told, AGENTS, agent, f"{AGENTS}/nobody"):
        await asyncio.sleep(0.6)  # what was announced before
        told.items.clear()
        began = clock()
        given: JsonObject = {
            "agent_name": name,
            "task_description": "work 1 s; say half; work 1 s; say more; work 30 s",
        }
        started = asyncio.create_task(lab.call("start_agent_task", **given))
        await told.until(lambda items: {AGENTS, agent} <= set(items))
        assert clock() - began < VISIBLE_SECONDS
        task = f"fleet://tasks/{(await started)['task']['id']}"
        later = Collected[str]()
        async with era(front, later, task):
            await later.count(1)  # what the agent writes
            await announce_change(lab.bus, FLEET_TEAM, FLEET_AGENT, f"{AGENTS}/{other}")
            await lab.call("stop_agent_task", agent_name=name)
            await later.count(len(later.items) + 1)
        assert set(later.items) == {task}
        assert set(told.items) == {AGENTS, agent}


async def test_a_session_is_told_at_any_gateway_what_it_may_have_missed(lab: Lab) -> None:
    await lab.replica(fleet_extras="true")
    async with a_front(lab) as first, a_front(lab) as second, httpx.AsyncClient(trust_env=False) as http:
        url = first.url(FLEET_TEAM, FLEET_AGENT)
        accept = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}

        async def post(method: str, **params: Any) -> httpx.Response:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return await http.post(url, json=body, headers=accept)

        client = {"name": "test", "version": "1"}
        made = await post("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
        assert '"subscribe":true' in made.text
        unbound = await post("resources/subscribe", uri=AGENTS)
        assert "mcp-session-id" in unbound.text
        assert (await http.get(url, headers=accept)).status_code == 405  # there is no session
        accept["mcp-session-id"] = session = made.headers["mcp-session-id"]
        assert '"result":{}' in (await post("resources/subscribe", uri=AGENTS)).text
        sessions = first.gateway.http.endpoints.platform.sessions
        token, agent = session_token(session, Principal()), f"{FLEET_TEAM}.{FLEET_AGENT}"
        full = {agent: (AGENTS, *(f"x:{number}" for number in range(1, MOST_SUBSCRIPTIONS)))}
        await put(lab.bus, SESSIONS, LegacySession(log_level="info", subscriptions=full), session=token)
        with pytest.raises(Rejected, match="64 resources"):
            await sessions.subscribe(token, "caller", agent, "x:64", wanted=True)
        await put(lab.bus, SESSIONS, LegacySession(subscriptions={agent: (AGENTS,)}), session=token)
        known = second.gateway.http.endpoints.platform.sessions
        await eventually(lambda: known.subscriptions(token, agent) == (AGENTS,))
        async with http.stream("GET", second.url(FLEET_TEAM, FLEET_AGENT), headers=accept) as stream:
            assert stream.status_code == 200
            lines = stream.aiter_lines()

            async def told() -> None:
                assert AGENTS in await soon(anext(line async for line in lines if line.startswith("data: ")))

            await told()  # perhaps a stream before this one broke
            await second.gateway.calls.bus.reconnected()
            await told()
            assert '"result":{}' in (await post("resources/unsubscribe", uri=AGENTS)).text
            await eventually(lambda: known.subscriptions(token, agent) == ())
            endpoint = second.gateway.http.endpoints.find(FLEET_TEAM, FLEET_AGENT)
            assert not isinstance(endpoint, str)
            endpoint.agent.end_listening()
            assert [line async for line in lines if line.startswith("data: ")] == []


async def test_no_stream_has_any_number_of_resources(lab: Lab) -> None:
    await lab.replica(fleet_extras="true")
    async with a_front(lab) as front, front.client(FLEET_TEAM, FLEET_AGENT) as client:
        uris = [f"{AGENTS}/{number}" for number in range(MOST_SUBSCRIPTIONS + 1)]
        with pytest.raises(MCPError, match="64 resources, not 65"):
            async with client.listen(resource_subscriptions=uris):
                pass
