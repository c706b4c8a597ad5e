"""The gateway over HTTP: what it refuses with which status, and clients that disconnect."""

import json
import logging

import httpx
import pytest
from mcp.shared.exceptions import MCPError
from tests.e2e import wire
from tests.integration.agent_gateway.conftest import Platform, begun
from tests.integration.real_parts import Front
from tests.requirements import requirement
from tests.waiting import eventually, soon

from pallas_cli.chat.conversation import Conversation
from pallas_mcp_calls.model import CallFailed

NOTHING: wire.Message = {}
JSON = {"content-type": "application/json"}


@pytest.fixture
async def front(platform: Platform) -> Front:
    """A gateway with an agent whose limit for a body is small."""
    await platform.publish()
    return await platform.gateway("bench", max_body_bytes="4096", public_url="http://pallas.example")


@requirement("P-6.2")
async def test_an_unknown_agent_is_404_with_an_explanation(
    front: Front, platform: Platform, http: httpx.AsyncClient
) -> None:
    for path, sentence in (
        (f"/teams/{platform.team}/mcp/nobody", "has no agent 'nobody'"),
        (f"/mcp/nobody-{platform.team}", "There is no agent"),
        ("/elsewhere", "Agents are served at /teams/{team}/mcp/{agent}"),
    ):
        answer = await http.post(front.base + path, json={})
        assert answer.status_code == 404
        assert sentence in answer.json()["error"]["message"]


async def test_a_chat_with_an_unknown_agent_says_only_that(front: Front, platform: Platform) -> None:
    nobody = f"nobody-{platform.team}"
    with pytest.raises(CallFailed, match=f"^there is no agent '{nobody}'$"):
        async with Conversation(f"{front.base}/mcp/{nobody}", nobody):
            pass


async def test_an_agent_is_found_by_name_alone_while_only_one_team_has_it(
    front: Front, platform: Platform, http: httpx.AsyncClient
) -> None:
    name = f"solo-{platform.team}"
    await platform.publish(name)
    await platform.served(front, name)
    body, headers = wire.modern("tools/list", NOTHING)
    assert (await http.post(f"{front.base}/mcp/{name}", json=body, headers=headers)).status_code == 200


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_every_method_but_post_is_405(
    front: Front, platform: Platform, http: httpx.AsyncClient, method: str
) -> None:
    answer = await http.request(method, front.url(platform.team, "bench"))
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_body_over_the_limit_is_413_also_before_it_arrives(
    front: Front, platform: Platform, http: httpx.AsyncClient, era: str
) -> None:
    params = {"name": "wait", "arguments": {"file": "x" * 5000}}
    body, headers = wire.modern("tools/call", params) if era == "modern" else wire.legacy("tools/call", params, "s")
    assert (await http.post(front.url(platform.team, "bench"), json=body, headers=headers)).status_code == 413
    lines = (f"{name}: {value}" for name, value in {**headers, **JSON, "content-length": "4097"}.items())
    async with begun(front, f"POST /teams/{platform.team}/mcp/bench", *lines) as (reader, _):
        assert b" 413 " in await soon(reader.readline())


@pytest.mark.parametrize(
    ("header", "value", "status"),
    [
        ("host", "evil.example", 421),
        ("host", "pallas.example", 200),
        ("host", "localhost:1234", 200),
        ("origin", "http://evil.example", 403),
        ("origin", "http://pallas.example", 200),
        ("origin", "http://127.0.0.1:9999", 200),
    ],
)
async def test_only_known_hosts_and_origins_are_served(
    front: Front, platform: Platform, http: httpx.AsyncClient, header: str, value: str, status: int
) -> None:
    body, headers = wire.modern("tools/list", NOTHING)
    answer = await http.post(front.url(platform.team, "bench"), json=body, headers={**headers, header: value})
    assert answer.status_code == status


@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_media_types_have_no_case_and_accept_may_have_several_lines(
    front: Front, platform: Platform, http: httpx.AsyncClient, era: str, method: str
) -> None:
    params: wire.Message = {"name": "get_health", "arguments": {}} if method == "tools/call" else NOTHING
    body, headers = wire.modern(method, params) if era == "modern" else wire.legacy(method, params, "session")
    del headers["accept"]
    lines = [("accept", "application/json"), ("content-type", "Application/JSON"), ("accept", "Text/Event-Stream")]
    content = json.dumps(body).encode()
    answer = await http.post(front.url(platform.team, "bench"), content=content, headers=[*headers.items(), *lines])
    assert (answer.status_code, b'"result"' in answer.content) == (200, True)


async def test_every_host_is_served_if_the_setting_allows_it(platform: Platform, http: httpx.AsyncClient) -> None:
    await platform.publish()
    open_front = await platform.gateway("bench", allowed_hosts="*")
    body, headers = wire.modern("tools/list", NOTHING)
    strange = {**headers, "host": "any.example", "origin": "http://any.example"}
    assert (await http.post(open_front.url(platform.team, "bench"), json=body, headers=strange)).status_code == 200


@pytest.mark.parametrize(
    ("version", "method"),
    [("2025-11-25", "tools/list"), ("2026-07-28", "tools/list"), ("2026-07-28", "tools/call")],
)
async def test_a_client_that_disconnects_inside_its_body_is_counted_and_causes_no_traceback(
    front: Front, platform: Platform, caplog: pytest.LogCaptureFixture, version: str, method: str
) -> None:
    caplog.set_level(logging.WARNING)
    headers = {**wire.ACCEPT, **JSON, "mcp-protocol-version": version, "mcp-method": method, "content-length": "1000"}
    lines = (f"{name}: {value}" for name, value in headers.items())
    path = f"POST /teams/{platform.team}/mcp/bench"
    async with begun(front, path, *lines, content=b'{"jsonrpc": "2.0",') as (_, writer):
        writer.transport.abort()
        await eventually(lambda: front.counted("pallas_clients_gone_total") == 1)
    assert [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR] == []


async def test_probes_and_metrics_are_served_beside_the_agents(front: Front, http: httpx.AsyncClient) -> None:
    await eventually(lambda: not front.process.probes.missing())
    assert (await http.get(front.base + "/livez")).status_code == 200
    assert (await http.get(front.base + "/readyz")).status_code == 200
    assert "pallas_turns_in_flight" in (await soon(http.get(front.base + "/metrics"))).text


async def test_a_web_socket_upgrade_is_refused_as_any_get(
    front: Front, platform: Platform, caplog: pytest.LogCaptureFixture
) -> None:
    upgrade = ("connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13")
    path, key = f"GET /teams/{platform.team}/mcp/bench", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
    async with begun(front, path, *upgrade, key) as (reader, _):
        assert b" 405 " in await soon(reader.readline())
    assert [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR] == []


async def test_an_error_raised_by_a_prompt_function_reaches_the_caller(platform: Platform) -> None:
    await platform.worker()
    front = await platform.gateway("bench")
    async with front.client(platform.team, "bench") as client:
        assert (await client.get_prompt("greeting", {"name": "Ada"})).messages
        with pytest.raises(MCPError, match="needs the argument 'name'") as refused:
            await client.get_prompt("greeting", {})
    assert refused.value.error.code == -32602
