"""Agents are published, changed and retired while a gateway serves them, and dedicated ports move between gateways."""

import asyncio
from functools import partial

import httpx
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent
from tests.embedded import accepts, free_port
from tests.integration.agent_gateway.conftest import WAIT, Platform
from tests.integration.real_parts import a_gateway, until
from tests.requirements import requirement
from tests.waiting import eventually, soon

from pallas_contracts.agents import ToolDefinition
from pallas_contracts.turns import Claimed

SAY = ToolDefinition(name="say")


async def test_an_agent_is_served_from_the_moment_it_is_published_until_it_is_retired(
    platform: Platform, http: httpx.AsyncClient
) -> None:
    front = await platform.gateway()
    assert (await http.post(front.url(platform.team, "bench"), json={})).status_code == 404
    await platform.publish()
    await platform.served(front)
    async with front.client(platform.team, "bench") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["wait", "get_health"]
    await platform.retire()
    await platform.gone(front)
    assert (await http.post(front.url(platform.team, "bench"), json={})).status_code == 404


async def test_an_agent_published_before_the_gateway_started_is_served(platform: Platform) -> None:
    await platform.publish()
    await platform.gateway("bench")


async def test_a_changed_list_of_tools_is_announced_and_served_by_the_same_endpoint(platform: Platform) -> None:
    await platform.publish()
    front = await platform.gateway("bench")
    async with (
        front.client(platform.team, "bench") as client,
        client.listen(tools_list_changed=True, prompts_list_changed=True) as changes,
    ):
        await platform.publish(tools=(WAIT, SAY))
        event = await soon(anext(aiter(changes)))
        assert "Tools" in type(event).__name__
        assert [tool.name for tool in (await client.list_tools()).tools] == ["wait", "say", "get_health"]


async def test_a_listening_stream_ends_without_an_error_when_the_agent_is_retired(platform: Platform) -> None:
    await platform.publish()
    front = await platform.gateway("bench")
    async with front.client(platform.team, "bench") as client, client.listen(tools_list_changed=True) as changes:
        await platform.retire()
        assert await soon(anext(aiter(changes), None)) is None


async def test_a_replaced_endpoint_finishes_its_calls(platform: Platform) -> None:
    await platform.worker()
    front = await platform.gateway("bench")
    file = platform.file()
    async with front.client(platform.team, "bench") as client:
        calling = asyncio.create_task(client.call_tool("wait", {"file": str(file)}))
        await platform.claim(Claimed)
        before = front.gateway.http.endpoints.find(platform.team, "bench")
        await platform.publish(version="9.0.0")
        await eventually(lambda: front.gateway.http.endpoints.find(platform.team, "bench") is not before)
        file.touch()
        [block] = (await soon(calling)).content
        assert isinstance(block, TextContent)
        assert block.text == "waited in attempt 1"


async def test_a_retired_agent_answers_earlier_calls_and_refuses_new_ones(platform: Platform) -> None:
    await platform.worker()
    front = await platform.gateway("bench")
    file = platform.file()
    async with front.client(platform.team, "bench") as client:
        await client.list_tools()
        calling = asyncio.create_task(client.call_tool("wait", {"file": str(file)}))
        await platform.claim(Claimed)
        await platform.retire()
        await platform.gone(front)
        file.touch()
        assert not (await soon(calling)).is_error
        with pytest.raises(MCPError):
            await client.call_tool("wait", {"file": str(file)})


async def test_a_dedicated_port_is_taken_over_by_another_gateway_when_its_gateway_ends(platform: Platform) -> None:
    port, key = free_port(), f"{platform.team}.bench"
    await platform.publish(port=port)

    def holders() -> list[str]:
        return [presence.gateway for presence in platform.gateways.values() if presence.ports.get(key) == port]

    async def tools() -> list[str]:
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    async with a_gateway(platform.url, agent_ports="true") as first:
        await eventually(lambda: holders() == [first.process.instance])
        second = await platform.gateway("bench", agent_ports="true")
        assert await tools() == ["wait", "get_health"]
        assert holders() == [first.process.instance]
    await eventually(lambda: holders() == [second.process.instance])
    assert await tools() == ["wait", "get_health"]


@requirement("P-1.18")
async def test_a_dedicated_port_follows_its_definition_and_is_closed_on_retirement(
    platform: Platform, http: httpx.AsyncClient
) -> None:
    before, after = free_port(), free_port()
    await platform.publish(port=before)
    await platform.gateway(agent_ports="true")

    async def answers(port: int) -> bool:
        try:
            return (await http.get(f"http://127.0.0.1:{port}/mcp")).status_code == 405
        except httpx.TransportError:
            return False

    async def refuses(port: int) -> bool:
        return not await answers(port)

    await until(partial(answers, before))
    assert (await http.get(f"http://127.0.0.1:{before}/elsewhere")).status_code == 404
    await platform.publish(port=after)
    await until(partial(answers, after))
    await until(partial(refuses, before))
    await platform.retire()
    await until(partial(refuses, after))


async def test_a_dedicated_port_that_moves_drains_alone_and_cancels_no_turn(
    platform: Platform,
) -> None:
    before, after = free_port(), free_port()
    await platform.publish(port=before, version="8.0.0")
    await platform.worker()
    front = await platform.gateway(agent_ports="true", drain_seconds="2")
    await eventually(lambda: accepts(before))
    file = platform.file()
    async with Client(f"http://127.0.0.1:{before}/mcp") as client:
        calling = asyncio.create_task(client.call_tool("wait", {"file": str(file)}))
        claimed = await platform.claim(Claimed)
        await platform.publish(port=after, version="9.0.0")
        await eventually(lambda: accepts(after))
        assert not calling.done()
        with pytest.raises(MCPError):
            await soon(calling)
    file.touch()
    assert (await platform.outcome(claimed)).status == "completed"
    await platform.served(front)


async def test_a_prompt_of_a_function_is_rendered_by_a_worker(platform: Platform) -> None:
    await platform.worker()
    front = await platform.gateway("bench")
    async with front.client(platform.team, "bench") as client:
        [message] = (await client.get_prompt("greeting", {"name": "Ada"})).messages
        assert isinstance(message.content, TextContent)
        assert message.content.text == "Greet Ada"
        with pytest.raises(MCPError, match="Unknown prompt"):
            await client.get_prompt("nope")
