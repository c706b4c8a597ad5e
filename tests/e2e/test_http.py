"""The endpoint over HTTP: refusals, their status and their message, in both eras."""

from collections.abc import AsyncGenerator

import httpx
import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from tests.e2e import wire
from tests.e2e.lab import Lab


def hello() -> wire.Message:
    """The parameters of a call, to be changed."""
    return {"name": "plain", "arguments": {"message": "/say hello"}}


@pytest.fixture
async def http() -> AsyncGenerator[httpx.AsyncClient]:
    """A plain HTTP client."""
    async with httpx.AsyncClient(timeout=30, verify=False) as client:
        yield client


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
