"""Secrets are not kept: marked secrets go through every entrance, and no stored data, log line or span contains them.

The services are processes of their own, with everything logged and traced, so what is searched is what they write.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send
from tests.bench.processes import Process, running
from tests.embedded import NatsServer
from tests.integration.real_parts import stored, until
from tests.requirements import requirement
from tests.runtimes import DemoServer

from pallas_bus.connection import Bus, connect
from pallas_contracts.catalog import CLI, TURN_OBJECTS
from pallas_runtime.http.listener import bind, listening

BEARER, COOKIE, QUERY = "bearer-7f3a", "cookie-91bc", "query-44de"
ARGUMENT, IDEMPOTENCY, FOLDER_KEY = "argument-c05f", "again-5e21", "folder-key-30d7"
MODEL_KEY, SERVER_TOKEN, REFUSED_TOKEN, KEY = (
    "model-key-8d1e",
    "server-token-2b9c",
    "refused-token-a6f4",
    "l0g-k3y-" * 5,
)
COLLECTOR_KEY = "collector-key-5d60"
SECRETS = (
    *(BEARER, COOKIE, QUERY, ARGUMENT, IDEMPOTENCY, MODEL_KEY, SERVER_TOKEN, REFUSED_TOKEN, FOLDER_KEY, KEY),
    COLLECTOR_KEY,
)
CONVERSATION = "chat-4711-of-somebody"
OPEN = "said openly"

AGENTS = """
name: private
agents:
  harper: {servers: [toolbox]}
  thinker: {model: generic.tiny}
  locked: {servers: [refusing]}
"""
CONFIG = """
default_model: offline
generic: {base_url: "%(refusing)s/v1"}
mcp:
  servers:
    toolbox: {url: "%(toolbox)s"}
    refusing: {url: "%(refusing)s/mcp"}
"""
KEPT_SECRET = """
generic: {api_key: "${MODEL_KEY}"}
mcp:
  servers:
    toolbox: {headers: {Authorization: "Bearer ${SERVER_TOKEN}"}}
    refusing: {headers: {Authorization: "Bearer ${REFUSED_TOKEN}", X-Key: folder-key-30d7}}
"""


class Careless:
    """A server that answers every request with 401 and the credential that came with it, and keeps the bodies."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.bodies: list[bytes] = []
        self.credentials: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        self.bodies.append(await request.body())
        shown = request.headers.get("authorization", "none")
        self.credentials.add(shown)
        body = {"error": {"message": f"{shown} is no credential of ours"}}
        await JSONResponse(body, status_code=401)(scope, receive, send)


@asynccontextmanager
async def careless() -> AsyncGenerator[Careless]:
    """Such a server, listening."""
    listener = bind("127.0.0.1", 0)
    server = Careless(listener.getsockname()[1])
    async with listening(server, listener, drain_seconds=1):
        yield server


@dataclass
class Running:
    """A gateway and a worker with all their servers. `traces` is their collector."""

    bus: Bus
    gateway: Process
    worker: Process
    refusing: Careless
    traces: Careless
    http: httpx.AsyncClient

    async def post(self, path: str, body: object, **headers: str) -> httpx.Response:
        """Send a request with credentials in every place where a caller may put them."""
        accept = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        private = {"authorization": f"Bearer {BEARER}", "cookie": f"session={COOKIE}", "x-api-key": BEARER}
        content = json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.gateway.port}{path}?token={QUERY}"
        return await self.http.post(url, content=content, headers={**accept, **private, **headers})

    async def ask(self, agent: str, method: str, params: Mapping[str, Any], **meta: object) -> str:
        """Send a request of the modern revision to an agent. Returns the whole answer."""
        about = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "caller", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": {**about, **meta}}}
        named = {"mcp-protocol-version": "2026-07-28", "mcp-method": method, "mcp-name": str(params["name"])}
        return (await self.post(f"/teams/private/mcp/{agent}", body, **named)).text

    async def call(self, agent: str, arguments: dict[str, Any], **meta: object) -> str:
        """Call the agent's own tool."""
        return await self.ask(agent, "tools/call", {"name": agent, "arguments": arguments}, **meta)


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncGenerator[Running]:
    """All running services."""
    async with AsyncExitStack() as stack:
        refusing, traces = await stack.enter_async_context(careless()), await stack.enter_async_context(careless())
        processes = ExitStack()
        stack.push_async_callback(asyncio.to_thread, processes.close)
        demo = DemoServer(tmp_path / "demo.log")
        demo.start()
        processes.callback(demo.kill)
        nats = processes.enter_context(NatsServer())
        folder = a_team(tmp_path / "team", refusing=refusing.url, toolbox=demo.url)
        env = {
            "PALLAS_NATS_URL": nats.url,
            "PALLAS_PORT": "{port}",
            "PALLAS_LOG_LEVEL": "DEBUG",
            "PALLAS_AGENT_PORTS": "false",
            "PALLAS_DRAIN_SECONDS": "1",
            "PALLAS_TEAMS": str(folder),
            "PALLAS_LOG_KEY": KEY,
            "OTEL_EXPORTER_OTLP_ENDPOINT": traces.url,
            "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{COLLECTOR_KEY}",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "MODEL_KEY": MODEL_KEY,
            "SERVER_TOKEN": SERVER_TOKEN,
            "REFUSED_TOKEN": REFUSED_TOKEN,
        }
        gateway = processes.enter_context(running("agent-gateway", tmp_path, "agent_gateway", env=env))
        worker = processes.enter_context(running("agent-worker", tmp_path, "agent_worker", env=env))
        for process in (gateway, worker):  # in a thread, since they use servers of this process while they end
            await asyncio.to_thread(process.wait_for, "readyz")
        async with connect(nats.url, CLI) as bus, httpx.AsyncClient(timeout=60, trust_env=False) as http:
            yield Running(bus, gateway, worker, refusing, traces, http)


def a_team(folder: Path, **urls: str) -> Path:
    """The team's folder, with secrets of its own and from the environment."""
    folder.mkdir()
    (folder / "agents.yaml").write_text(AGENTS)
    (folder / "fastagent.config.yaml").write_text(CONFIG % urls)
    (folder / "fastagent.secrets.yaml").write_text(KEPT_SECRET)
    return folder


async def served(parts: Running) -> None:
    """Wait until the gateway answers for the agents."""

    async def look() -> bool:
        return "hello" in await parts.call("harper", {"message": "/say hello"})

    await until(look, within=30)


async def use_every_entrance(parts: Running) -> None:
    """Send valid and invalid requests with secrets to every entrance."""
    talk = {"conversation_id": CONVERSATION}
    added = await parts.call("harper", {"message": f'{OPEN}\n/tool toolbox/add {{"a": 40, "b": 2}}', **talk})
    assert "42" in added
    big = [{"role": "user", "content": "said before " * 50}] * 1000
    assert "big" in await parts.call("harper", {"message": "/say big", "history": big, **talk})
    assert "once" in await parts.call("harper", {"message": "/say once"}, **{"pallas/idempotency-key": IDEMPOTENCY})
    assert "model_failed" in await parts.call("thinker", {"message": "think", **talk})
    await parts.call("locked", {"message": '/tool refusing/any {"x": 1}', **talk})
    assert "unknown field" in await parts.call("harper", {"message": "hello", "secret": ARGUMENT})
    assert "must be of type" in await parts.call("harper", {"message": "hello", "history": ARGUMENT})
    await parts.ask("harper", "prompts/get", {"name": "harper_history"})
    await parts.ask("harper", "prompts/get", {"name": "nothing"})
    await parts.call("nobody", {"message": "hello"})
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}
    for method, params in (
        ("initialize", hello),
        ("tools/call", {"name": "harper", "arguments": {"message": "/say old", **talk}}),
        ("no/such", {"token": ARGUMENT}),
    ):
        body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        await parts.post("/teams/private/mcp/harper", body, **{"mcp-session-id": BEARER})
    await parts.post("/teams/private/mcp/harper", ARGUMENT)


@requirement("A-3.1.1", "A-4.3.1", "A-9.1.3")
async def test_no_secret_is_in_the_broker_in_a_log_line_or_in_a_span(parts: Running) -> None:
    await served(parts)
    await use_every_entrance(parts)
    assert parts.refusing.credentials == {f"Bearer {MODEL_KEY}", f"Bearer {REFUSED_TOKEN}"}

    async def all_ended() -> bool:
        found = await stored(parts.bus)
        return not found["TURN_QUEUE"] and found["TURN_LOG"].count(b"pallas.v1.turn.outcome.") >= 6

    async def both_traced() -> bool:
        return all(any(name in body for body in parts.traces.bodies) for name in (b"agent-gateway", b"agent-worker"))

    await until(all_ended)
    await until(both_traced)
    assert parts.traces.credentials == {f"Bearer {COLLECTOR_KEY}"}
    kept = await stored(parts.bus)
    outputs = {
        "spans": b"\n".join(parts.traces.bodies),
        "gateway's log": parts.gateway.output().encode(),
        "worker's log": parts.worker.output().encode(),
    }
    written = {**kept, **outputs}
    assert OPEN.encode() in kept["TURN_LOG"]
    assert [where for where, text in outputs.items() if OPEN.encode() in text] == []
    assert kept[TURN_OBJECTS.name]
    found = [(secret, where) for where, text in written.items() for secret in SECRETS if secret.encode() in text]
    assert found == []
    assert [where for where in kept if CONVERSATION.encode() in kept[where]] == []
    assert CONVERSATION in parts.worker.output()
