"""The fleet as MCP clients and JSON-RPC callers see it, through a gateway."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx
import pytest
from mcp import Client, MCPError
from mcp_types import ElicitRequestFormParams, ElicitResult, TextContent, TextResourceContents
from tests.integration.fleet.lab import Lab
from tests.integration.real_parts import Front, a_gateway
from tests.waiting import eventually

from pallas_contracts.agents import JsonObject
from pallas_contracts.catalog import FLEET_AGENT, FLEET_TASKS_AGENT, FLEET_TEAM


async def test_a_client_uses_the_fleet_and_reads_its_errors(lab: Lab) -> None:
    await lab.replica()
    async with a_front(lab) as front, front.client(FLEET_TEAM, FLEET_AGENT) as client:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        assert listed[0] == "create_agent"
        assert "stop_agent_task" in listed
        assert "cancel_task" not in listed
        answer = await client.call_tool("list_agents", {})
        assert answer.structured_content == {"agents": [], "total_count": 0}
        refused = await client.call_tool("cancel_task", {"agent_name": "nobody"})
        assert (refused.is_error, refused.structured_content) == (True, None)
        [content] = refused.content
        assert isinstance(content, TextContent)
        told = json.loads(content.text)
        assert (refused.meta or {})["pallas/error"] == told
        assert (told["error"], told["details"]["status"]) == ("not_found", 404)
        for given, field, words in (
            ({}, "agent_name", "agent_name is missing."),
            ({"agent_name": None}, "agent_name", "agent_name must be of the JSON type string."),
            ({"agent_name": "papi", "page": "2"}, "page", "page must be of the JSON type integer."),
            ({"agent_name": "papi", "page": True}, "page", "page must be of the JSON type integer."),
        ):
            wrong = await client.call_tool("show_agent_task_history", given)
            [content] = wrong.content
            assert isinstance(content, TextContent)
            told = json.loads(content.text)
            assert (wrong.is_error, told["error"], told["message"]) == (True, "bad_request", words)
            assert (told["details"]["status"], told["details"]["field"]) == (400, field)
        assert await _rpc(front.base, "show_agent", {}) == -32602
        for tool, arguments in (("show_agent", {}), ("show_agent_task_history", {"page": 0})):
            assert await _rpc(front.base, tool, {"agent_name": "nobody", **arguments}) == -32602
        async with httpx.AsyncClient(verify=False, trust_env=False) as http:
            nobody = await http.post(front.url(FLEET_TEAM, FLEET_TASKS_AGENT), json={})
        assert nobody.status_code in (401, 403), nobody.text


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_what_a_coding_agent_asks_comes_back_and_the_answer_is_its_next_task(
    lab: Lab, era: Literal["auto", "legacy"]
) -> None:
    _, name = await lab.with_agent(fleet_extras="true")
    asked = list[str]()

    async def answer(_: object, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        assert list(params.requested_schema["properties"]) == ["answer"]
        asked.append(params.message)
        return ElicitResult(action="accept", content={"answer": "say blue"})

    async with (
        a_front(lab) as front,
        front.client(FLEET_TEAM, FLEET_AGENT, era, elicitation_callback=answer) as client,
    ):
        await client.call_tool("start_agent_task", {"agent_name": name, "task_description": "ask Which colour?"})
        waited = await _waited(client, name)
        if era == "legacy":  # a handshake leaves no way to ask
            assert (waited["asks"], waited["ended"], asked) == ("Which colour?", True, [])
            return
        assert asked == [f"Agent '{name}' asks: Which colour?"]
        assert (waited["task"]["summary"], waited["task"]["source"]) == ("say blue", "ai_controller")
        ended = await _waited(client, name)
        assert (ended["task"]["id"], ended["task"]["status"]) == (waited["task"]["id"], "completed")
        assert (lab.coder.agent(name).prompts[1:], len(asked)) == (["ask Which colour?", "say blue"], 1)


async def test_agents_and_tasks_are_resources(lab: Lab) -> None:
    _, name = await lab.with_agent(fleet_extras="true")
    async with a_front(lab) as front, front.client(FLEET_TEAM, FLEET_AGENT) as client:

        async def read(uri: str) -> Any:
            [content] = (await client.read_resource(uri)).contents
            assert isinstance(content, TextResourceContents)
            assert (content.uri, content.mime_type) == (uri, "application/json")
            return json.loads(content.text)

        assert [it.uri for it in (await client.list_resources()).resources] == ["fleet://agents"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [it.uri_template for it in templates] == ["fleet://agents/{name}", "fleet://tasks/{id}"]
        assert await read("fleet://agents") == await lab.call("list_agents")
        assert await read(f"fleet://agents/{name}") == await lab.call("show_agent", agent_name=name)
        [spec] = await lab.history(name)
        given: JsonObject = {"agent_name": name, "task_description": "say hello; work 30 s"}
        started = await lab.call("start_agent_task", **given)
        now = await read(f"fleet://tasks/{started['task']['id']}")
        assert (now["task"]["status"], now["messages"][0]["text"]) == ("running", given["task_description"])
        await lab.call("stop_agent_task", agent_name=name)
        ended = await read(f"fleet://tasks/{started['task']['id']}")
        assert (ended["task"]["status"], [it["role"] for it in ended["messages"]]) == ("stopped", ["user", "agent"])
        assert ended["messages"][1]["text"].startswith("hello")
        first = await read(f"fleet://tasks/{spec['id']}")
        assert [it["text"] for it in first["messages"]] == ["say hello", "hello"]
        plain = started["task"]["id"].replace("-", "")
        for uri in (f"fleet://agents/{name.upper()}", f"fleet://tasks/{plain}"):  # changes have the other spelling
            with pytest.raises(MCPError, match=r"There is no resource .*; it is fleet://"):
                await client.read_resource(uri)
        for uri in ("fleet://agents/nobody", f"fleet://tasks/{'0' * 32}", "fleet://tasks/x"):
            with pytest.raises(MCPError, match=r"does not exist|There is no task"):
                await client.read_resource(uri)


async def _waited(client: Client, name: str) -> JsonObject:
    result = await client.call_tool("wait_agent_task", {"agent_name": name})
    assert result.structured_content is not None, result.content
    return result.structured_content


@asynccontextmanager
async def a_front(lab: Lab) -> AsyncGenerator[Front]:
    """A gateway that knows both agents."""
    async with a_gateway(lab.nats_url) as front:
        find = front.gateway.http.endpoints.find
        agents = (FLEET_AGENT, FLEET_TASKS_AGENT)
        await eventually(lambda: not any(isinstance(find(FLEET_TEAM, agent), str) for agent in agents))
        yield front


async def _rpc(base: str, tool: str, arguments: JsonObject) -> int:
    async with httpx.AsyncClient(verify=False, trust_env=False) as http:
        params = {"agent_id": "fleet", "function": tool, "input": arguments, "meta": {"task_id": "call"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "agent.execute", "params": params}
        answer = await http.post(f"{base}/teams/{FLEET_TEAM}/rpc", json=body)
    return answer.json()["error"]["code"]
