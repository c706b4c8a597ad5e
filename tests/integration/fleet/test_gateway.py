"""The fleet as MCP clients and JSON-RPC callers see it, through a gateway."""

import json

import httpx
from mcp_types import TextContent
from tests.integration.fleet.lab import Lab
from tests.integration.real_parts import a_gateway, until

from pallas_bus.transport import kv
from pallas_contracts.agents import JsonObject
from pallas_contracts.catalog import AGENTS, FLEET_AGENT, FLEET_TASKS_AGENT, FLEET_TEAM


async def test_a_client_uses_the_fleet_and_reads_its_errors(lab: Lab) -> None:
    await lab.replica()

    async def published() -> bool:
        agents = [await kv.get(lab.bus, AGENTS, team=FLEET_TEAM, agent=it) for it in (FLEET_AGENT, FLEET_TASKS_AGENT)]
        return None not in agents

    await until(published)
    async with a_gateway(lab.nats_url) as front, front.client(FLEET_TEAM, FLEET_AGENT) as client:
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
        missing = await client.call_tool("show_agent", {})
        assert missing.is_error
        assert (missing.meta or {})["pallas/error"]["code"] == "invalid_arguments"
        for tool, arguments in (("show_agent", {}), ("show_agent_task_history", {"page": 0})):
            assert await _rpc(front.base, tool, {"agent_name": "nobody", **arguments}) == -32602
        async with httpx.AsyncClient(verify=False, trust_env=False) as http:
            nobody = await http.post(front.url(FLEET_TEAM, FLEET_TASKS_AGENT), json={})
        assert nobody.status_code in (401, 403), nobody.text


async def _rpc(base: str, tool: str, arguments: JsonObject) -> int:
    async with httpx.AsyncClient(verify=False, trust_env=False) as http:
        params = {"agent_id": "fleet", "function": tool, "input": arguments, "meta": {"task_id": "call"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "agent.execute", "params": params}
        answer = await http.post(f"{base}/teams/{FLEET_TEAM}/rpc", json=body)
    return answer.json()["error"]["code"]
