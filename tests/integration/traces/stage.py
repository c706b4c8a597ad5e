"""Every service of one turn as a process, each of which sends its spans to a collector by HTTP or gRPC."""

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.embedded import NatsServer, RedisServer
from tests.integration.library_search.lab import DOCUMENTS
from tests.integration.processes import Service, a_service
from tests.integration.real_parts import until
from tests.integration.team_lifecycle.lab import ADMIN, ADMIN_PASSWORD, SERVICE_PASSWORD, TEAMS, environment
from tests.otlp import Collector, collecting
from tests.postgres import PostgresServer
from tests.runtimes import DemoServer

AGENTS = """
name: %(name)s
agents:
  harper: {servers: [toolbox], depends_on: [research]}
  research: {servers: [toolbox, library]}
"""
CONFIG = """
default_model: offline
mcp:
  servers:
    toolbox: {url: "%(toolbox)s"}
    library: {url: "%(library)s/mcp"}
"""
SECRETS = """
mcp:
  servers:
    library: {headers: {Authorization: "Bearer %(bearer)s"}}
"""
TEAM_ID = "6f1f6f0e-58cb-4c79-8b7e-1d5b6fbd6f2c"
_CLIENT: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "caller", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_HEADERS = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "harper",
}
_ADMIN, _DAEDALUS = ("admin", ADMIN_PASSWORD), ("daedalus-service", SERVICE_PASSWORD)


@dataclass
class Stage:
    """All running services. `bearer` is a caller's, and `environ` has the collector's variables for workers."""

    folder: Path
    nats: str
    collector: Collector
    http: httpx.AsyncClient
    redis: RedisServer
    environ: dict[str, str]
    stack: AsyncExitStack
    bearer: str = ""
    base: str = ""
    downstream: dict[str, str] = field(default_factory=dict[str, str])

    async def start(self, module: str, name: str, others: Mapping[str, str], **settings: str) -> Service:
        """Start a service that exports spans every 50 ms, and wait until it is ready."""
        quick = {"OTEL_BSP_SCHEDULE_DELAY": "50", "PALLAS_LOG_LEVEL": "DEBUG", **others}
        part = a_service(module, self.nats, self.folder, name, quick, **settings)
        service = await self.stack.enter_async_context(part)
        await service.ready()
        return service

    async def worker(self, name: str, team: str = "traced", **settings: str) -> Service:
        """Start a worker for a team, which gives back its turns on SIGTERM."""
        folder = self.folder / team
        if not folder.exists():
            _write_team(folder, name=team, **self.downstream)
        given = {"teams": str(folder), "drain_seconds": "0", **settings}
        worker = await self.start("agent_worker", name, self.environ, **given)
        await self._served(team)
        return worker

    async def call(
        self, message: str, *, team: str = "traced", meta: Mapping[str, str] | None = None, **headers: str
    ) -> dict[str, Any]:
        """Call a team's harper in the modern revision; the result."""
        about = {**_CLIENT, **(meta or {})}
        params = {"name": "harper", "arguments": {"message": message}, "_meta": about}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = await self.http.post(self._url(team), json=body, headers={**_HEADERS, **self._bearing, **headers})
        assert answer.status_code == 200, answer.text
        # A slow answer comes as a stream.
        [*_, last] = [line.removeprefix("data: ") for line in answer.text.splitlines() if "{" in line]
        return json.loads(last)["result"]

    async def _served(self, team: str) -> None:
        """Wait until the gateway has the team."""

        async def look() -> bool:
            return (await self.http.put(self._url(team), headers=self._bearing)).status_code == 405

        await until(look, 30)

    def _url(self, team: str) -> str:
        return f"{self.base}/teams/{team}/mcp/harper"

    @property
    def _bearing(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.bearer}"}


@asynccontextmanager
async def a_stage(folder: Path, postgres: PostgresServer) -> AsyncGenerator[Stage]:
    """Start everything but workers, with one library that has one document."""
    async with AsyncExitStack() as stack:
        nats, redis = stack.enter_context(NatsServer()), stack.enter_context(RedisServer(folder / "redis"))
        collector = await stack.enter_async_context(collecting())
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=60, trust_env=False))
        by_grpc = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.grpc, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        by_http = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.http}
        stage = Stage(folder, nats.url, collector, http, redis, by_http, stack)
        auth = environment(redis_url=redis.url, postgres_url=await postgres.new_database())
        own = {**auth, "PALLAS_POSTGRES_URL": await postgres.new_database()}
        lifecycle, _, search, gateway = await asyncio.gather(
            stage.start("team_lifecycle", "lifecycle", {**auth, **by_grpc}),
            stage.start("auth_resolver", "resolver", {**auth, **by_grpc}),
            stage.start("library_search", "search", {**own, **by_http}),
            stage.start("agent_gateway", "gateway", by_http, gateway_auth="required", agent_ports="false"),
        )
        stage.base = gateway.base
        team, stage.bearer = await _let_in(http, lifecycle.base, search.base)
        demo = DemoServer(folder / "demo.log", "-m", "tests.integration.traces.traced_demo")
        stack.callback(demo.kill)
        with pytest.MonkeyPatch.context() as patched:
            for name, value in {**by_grpc, "OTEL_BSP_SCHEDULE_DELAY": "50"}.items():
                patched.setenv(name, value)
            await asyncio.to_thread(demo.start)
        stage.downstream = {"toolbox": demo.url, "library": search.base, "bearer": team}
        yield stage


async def _let_in(http: httpx.AsyncClient, lifecycle: str, search: str) -> tuple[str, str]:
    """Create a library of one document and a team that may read it. Returns the team's bearer and a caller's."""

    async def send(method: str, url: str, account: tuple[str, str], **content: Any) -> Any:
        answer = await http.request(method, url, auth=account, **content)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    admin, teams = f"{lifecycle}{ADMIN}", f"{lifecycle}{TEAMS}"
    await send("POST", f"{admin}/users", _ADMIN, json={"name": "ann"})
    library = {"uid": "manuals", "name": "Manuals", "workspace_id": "work", "owner": "ann"}
    await send("POST", f"{admin}/libraries", _ADMIN, json=library)
    page = f"{search}{DOCUMENTS}/manuals"
    await send("PUT", page, _ADMIN, params={"path": "page.md"}, content=b"# Page\nA page of the manuals.\n")
    made = await send("POST", teams, _DAEDALUS, json={"id": TEAM_ID, "name": "Kottos"})
    await send("PUT", f"{teams}{TEAM_ID}/workspaces/", _DAEDALUS, json={"workspace_ids": ["work"]})
    token = {"user": "ann", "name": "a caller", "allowed_libraries": ["manuals"]}
    return made["jwt"], (await send("POST", f"{admin}/tokens", _ADMIN, json=token))["token"]


def _write_team(folder: Path, **values: str) -> None:
    folder.mkdir()
    (folder / "agents.yaml").write_text(AGENTS % values)
    (folder / "fastagent.config.yaml").write_text(CONFIG % values)
    (folder / "fastagent.secrets.yaml").write_text(SECRETS % values)
