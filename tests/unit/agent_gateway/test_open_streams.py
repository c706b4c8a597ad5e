"""One caller cannot have all streams of an agent."""

import asyncio
import json
from typing import Any

import pytest
from mcp_types.version import LATEST_MODERN_VERSION
from tests.builders import turn_outcome
from tests.unit.agent_gateway.paths import HOST, Asked, Connection, Script, gateway
from tests.waiting import soon

from agent_gateway.open_streams import OpenStreams
from pallas_contracts.turns import Principal
from pallas_turns.model import TurnEnd

META = "io.modelcontextprotocol/"
ALICE, BOB, CAROL = (Principal(type="user", id=name) for name in ("alice", "bob", "carol"))
NEVER = Script((), lambda request: TurnEnd(turn_outcome(request), None))


def listen() -> Asked:
    """A request for a stream of changes."""
    meta = {
        f"{META}protocolVersion": LATEST_MODERN_VERSION,
        f"{META}clientCapabilities": {},
        f"{META}clientInfo": {"name": "tests", "version": "0"},
    }
    params: dict[str, Any] = {"notifications": {"toolsListChanged": True}, "_meta": meta}
    headers = (
        (b"host", HOST),
        (b"content-type", b"application/json"),
        (b"accept", b"application/json, text/event-stream"),
        (b"mcp-protocol-version", LATEST_MODERN_VERSION.encode()),
        (b"mcp-method", b"subscriptions/listen"),
    )
    body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    return Asked(headers, json.dumps(body).encode())


def test_a_caller_has_a_limit_of_its_own_and_all_callers_have_one() -> None:
    streams = OpenStreams("streams", 3, 2)
    with streams.opened(ALICE), streams.opened(ALICE):
        assert streams.full(ALICE) == "This caller has 2 streams open, and can have no more."
        assert streams.full(BOB) is None
        with streams.opened(BOB):
            assert streams.full(CAROL) == "Too many streams are open."
        assert streams.full(CAROL) is None
    assert streams.full(ALICE) is None


async def test_a_caller_that_has_too_many_streams_of_an_agent_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_gateway.mcp.server.MOST_OF_A_CALLER", 1)
    opened, done = asyncio.Event(), asyncio.Event()

    async def leave(connection: Connection) -> None:
        connection.on_body = lambda body: opened.set()
        await done.wait()
        connection.gone.set()

    async def leave_at_once(connection: Connection) -> None:
        connection.on_body = lambda body: connection.gone.set()

    async with gateway(monkeypatch) as paths:
        first = asyncio.create_task(paths.ask(listen(), NEVER, own=True, connected=leave))
        await soon(opened.wait())
        error = json.loads((await paths.ask(listen(), NEVER, own=True)).body)["error"]
        assert error["message"] == "This caller has 1 streams of changes of this agent open, and can have no more."
        assert error["data"] == {"code": "busy"}
        done.set()
        assert b"acknowledged" in (await first).body
        again = asyncio.create_task(paths.ask(listen(), NEVER, own=True, connected=leave_at_once))
        assert b"acknowledged" in (await again).body
