"""The endpoint over HTTP: refusals, their status and their message, in both eras."""

from collections.abc import AsyncGenerator

import httpx
import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from tests.e2e import wire
from tests.e2e.lab import Era, Lab
from tests.requirements import requirement


def hello() -> wire.Message:
    """The parameters of a call, to be changed."""
    return {"name": "plain", "arguments": {"message": "/say hello"}}


@pytest.fixture
async def http() -> AsyncGenerator[httpx.AsyncClient]:
    """A plain HTTP client."""
    async with httpx.AsyncClient(timeout=30, verify=False) as client:
        yield client


async def a_call(lab: Lab, http: httpx.AsyncClient, era: Era) -> tuple[wire.Message, dict[str, str]]:
    """A valid call."""
    if era == "auto":
        return wire.modern("tools/call", hello())
    return wire.legacy("tools/call", hello(), await wire.shake_hands(http, lab.url("plain")))


async def test_a_call_is_answered(lab: Lab, http: httpx.AsyncClient, era: Era) -> None:
    [answer] = await wire.answers(http, lab.url("plain"), await a_call(lab, http, era))
    assert answer["result"]["content"] == [{"type": "text", "text": "hello"}]


@pytest.mark.parametrize("path", ["/teams/lab/mcp/nobody", "/teams/nobodys/mcp/plain", "/mcp/nobody", "/", "/mcp"])
@requirement("P-6.2")
async def test_an_unknown_path_is_404(lab: Lab, http: httpx.AsyncClient, era: Era, path: str) -> None:
    body, headers = await a_call(lab, http, era)
    answer = await http.post(lab.stack.ready()["gateway"] + path, json=body, headers=headers)
    assert answer.status_code == 404
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_only_post_is_served(lab: Lab, http: httpx.AsyncClient, era: Era, method: str) -> None:
    _, headers = await a_call(lab, http, era)
    answer = await http.request(method, lab.url("plain"), headers=headers)
    assert answer.status_code == 405
    assert "POST" in answer.headers["allow"]


async def test_a_browsers_get_is_405(lab: Lab, http: httpx.AsyncClient) -> None:
    assert (await http.get(lab.url("plain"), headers={"accept": "text/html"})).status_code == 405


async def test_a_body_beyond_the_limit_is_refused(lab: Lab, http: httpx.AsyncClient, era: Era) -> None:
    body, headers = await a_call(lab, http, era)
    body["params"]["arguments"]["message"] = "x" * (16 * 1024 * 1024)
    answer = await http.post(lab.url("plain"), json=body, headers=headers)
    assert answer.status_code == 413


async def test_a_body_of_some_megabytes_is_accepted(lab: Lab, http: httpx.AsyncClient, era: Era) -> None:
    body, headers = await a_call(lab, http, era)
    body["params"]["arguments"]["images"] = [{"mime_type": "image/png", "data": "AAAA" * 1_000_000}]
    [answer] = await wire.answers(http, lab.url("plain"), (body, headers))
    assert answer["result"]["_meta"]["pallas/error"]["code"] == "vision_required"


async def test_an_unknown_host_is_refused(lab: Lab, http: httpx.AsyncClient, era: Era) -> None:
    body, headers = await a_call(lab, http, era)
    answer = await http.post(lab.url("plain"), json=body, headers={**headers, "host": "evil.example"})
    assert answer.status_code == 421


async def test_an_unknown_origin_is_refused(lab: Lab, http: httpx.AsyncClient, era: Era) -> None:
    body, headers = await a_call(lab, http, era)
    answer = await http.post(lab.url("plain"), json=body, headers={**headers, "origin": "http://evil.example"})
    assert answer.status_code == 403


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_every_older_revision_is_served_at_the_same_url(lab: Lab, http: httpx.AsyncClient, version: str) -> None:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "old", "version": "0"}}
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    async with wire.posted(http, lab.url("plain"), (body, wire.ACCEPT)) as stream:
        [answer] = [message async for message in stream.messages()]
        session = stream.response.headers["mcp-session-id"]
    assert answer["result"]["protocolVersion"] == version
    body, headers = wire.legacy("tools/call", hello(), session)
    [answer] = await wire.answers(http, lab.url("plain"), (body, {**headers, "mcp-protocol-version": version}))
    assert answer["result"]["content"] == [{"type": "text", "text": "hello"}]


async def test_a_body_that_is_not_json_is_a_bad_request(lab: Lab, http: httpx.AsyncClient, era: Era) -> None:
    _, headers = await a_call(lab, http, era)
    answer = await http.post(
        lab.url("plain"), content=b"{no json", headers={**headers, "content-type": "application/json"}
    )
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == -32700


async def test_a_client_that_disconnects_inside_its_request_causes_no_traceback(lab: Lab) -> None:
    async def half() -> AsyncGenerator[bytes]:
        yield b'{"jsonrpc": "2.0", '
        raise ConnectionError("gone")

    async with httpx.AsyncClient(verify=False) as leaving:
        with pytest.raises(ConnectionError):
            await leaving.post(
                lab.url("plain"), content=half(), headers={**wire.ACCEPT, "content-type": "application/json"}
            )
    async with lab.client("plain") as client:
        await client.call_tool("plain", {"message": "/say still here"})
    assert "Traceback" not in lab.logs("agent-gateway")
    assert '"exception"' not in lab.logs("agent-gateway")
