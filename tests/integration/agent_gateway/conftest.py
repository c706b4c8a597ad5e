"""Gateways with agents in the catalogue, the log, and workers if a test starts some."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp_types import CallToolResult
from tests.builders import agent_definition
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.real_parts import Front, a_gateway, a_lab, a_process, a_worker, measured
from tests.waiting import PATIENCE, Collected, eventually, soon

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_bus.kv import Table, watch
from pallas_bus.streams import declare
from pallas_contracts.agents import AgentDefinition, GatewayPresence, ToolDefinition
from pallas_contracts.catalog import AGENTS, BUCKETS, GATEWAY, GATEWAYS, STREAMS
from pallas_contracts.turns import CancelRequested, Claimed, TurnClaim, TurnOutcome
from pallas_runtime.process import Process
from pallas_turns import positions as queue_positions
from pallas_turns import relay as relay_turn
from pallas_turns.claims import TurnRef, watch_claims
from pallas_turns.executor import Executor
from pallas_turns.feeds import TurnFeeds, follow_turns

WAIT = ToolDefinition(
    name="wait",
    input_schema={"type": "object", "properties": {"file": {"type": "string"}}, "additionalProperties": False},
)

SLOW_MACHINE = 4
"""Seconds by which a busy machine may be late."""


def error_of(result: CallToolResult) -> dict[str, Any]:
    """The facts of a tool error."""
    assert result.is_error
    return (result.meta or {})["pallas/error"]


@dataclass
class Platform:
    """One broker with one team on it. `bus` is a connection of the test's own."""

    url: str
    bus: Bus
    team: str
    folder: Path
    feeds: TurnFeeds
    gateways: Table[GatewayPresence]
    claims: Collected[TurnClaim]
    stack: AsyncExitStack
    files: list[Path] = field(default_factory=list[Path])
    workers: list[Process] = field(default_factory=list[Process])

    async def gateway(self, **settings: str) -> Front:
        """Run one more gateway until the end of the test."""
        return await self.stack.enter_async_context(a_gateway(self.url, **settings))

    def describe(self) -> Path:
        """Write the team folder, unless it is there."""
        return self.folder if self.folder.exists() else a_lab(self.folder, self.team)

    async def worker(self, edit: Callable[[str], str] = lambda text: text) -> Executor:
        """Run a worker that hosts the lab as this team, until the end of the test."""
        folder = self.folder if self.folder.exists() else a_lab(self.folder, self.team, edit)
        self.workers.append(a_process("agent-worker"))
        return await self.stack.enter_async_context(a_worker(self.url, folder, process=self.workers[-1]))

    def counted(self, metric: str, agent: str = "bench", **labels: str) -> float:
        """The sum of a metric of an agent over all workers."""
        return sum(measured(process, metric, team=self.team, agent=agent, **labels) for process in self.workers)

    async def publish(self, agent: str = "bench", **fields: Any) -> AgentDefinition:
        """Publish an agent that no worker hosts."""
        definition = agent_definition(self.team, agent, **({"tools": (WAIT,)} | fields))
        await kv.put(self.bus, AGENTS, definition, team=self.team, agent=agent)
        return definition

    async def retire(self, agent: str = "bench") -> None:
        """Retire an agent."""
        await kv.delete(self.bus, AGENTS, team=self.team, agent=agent)

    async def served(self, front: Front, agent: str = "bench") -> None:
        """Wait until a gateway has the endpoint of an agent."""
        await front.serves(self.team, agent)

    async def gone(self, front: Front, agent: str = "bench") -> None:
        """Wait until a gateway has no endpoint of an agent."""
        await eventually(lambda: isinstance(front.gateway.http.endpoints.find(self.team, agent), str))

    def file(self) -> Path:
        """A file for the tool `wait` to wait for."""
        self.files.append(self.folder.parent / f"go{len(self.files)}")
        return self.files[-1]

    async def claim(self, kind: type[Claimed] | type[CancelRequested], *, number: int = 0) -> TurnClaim:
        """Wait for the first claim (or cancel) of a turn of this team."""

        def found(claims: list[TurnClaim]) -> list[TurnClaim]:
            return [claimed for claimed in claims if claimed.team == self.team and isinstance(claimed.claim, kind)]

        return found(await self.claims.until(lambda claims: len(found(claims)) > number))[number]

    async def worker_of(self, attempt: int) -> str:
        """Wait for the worker that makes this attempt at the first turn of this team."""

        def found(claims: list[TurnClaim]) -> list[str]:
            own = [item.claim for item in claims if item.team == self.team and isinstance(item.claim, Claimed)]
            return [claim.worker for claim in own if claim.attempt == attempt]

        return found(await self.claims.until(lambda claims: bool(found(claims))))[0]

    async def outcome(self, claimed: TurnClaim) -> TurnOutcome:
        """Wait for the end of a turn."""

        async def read() -> TurnOutcome:
            feed = await self.feeds.resume(TurnRef(claimed.team, claimed.agent, claimed.turn_id))
            async for each in feed:
                if isinstance(each, TurnOutcome):
                    return each
            raise AssertionError("a feed ends with an outcome")

        return await soon(read())


@pytest.fixture
async def platform(bus: Connecting, nats_url: str, team: str, tmp_path: Path) -> AsyncGenerator[Platform]:
    """The module's broker, with a team of the test's own."""
    async for made in make_platform(await bus(GATEWAY), nats_url, team, tmp_path):
        yield made


@pytest.fixture
async def alone(nats_server: NatsServer, bus: Connecting, team: str, tmp_path: Path) -> AsyncGenerator[Platform]:
    """A platform on a broker of the test's own."""
    connection = await bus(GATEWAY, url=nats_server.url)
    async for made in make_platform(connection, nats_server.url, team, tmp_path):
        yield made


async def make_platform(connection: Bus, url: str, team: str, folder: Path) -> AsyncGenerator[Platform]:
    """A platform on that broker."""
    await declare(connection, *(thing for thing in (*STREAMS, *BUCKETS) if thing.owner == GATEWAY))
    claims = Collected[TurnClaim]()
    async with (
        AsyncExitStack() as stack,
        follow_turns(connection) as feeds,
        watch(connection, GATEWAYS) as gateways,
        watch_claims(connection, lambda claimed, _position: claims.add(claimed)),
    ):
        await connection.client.flush()
        yield Platform(url, connection, team, folder / "team", feeds, gateways, claims, stack)


@pytest.fixture
def asked_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gateways wait for the state of a queue, however busy the machine is."""
    monkeypatch.setattr(queue_positions, "_READ_TIMEOUT", PATIENCE)


@pytest.fixture
def queued_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn is taken by a free worker before its queue position is sent, however busy the machine is."""
    monkeypatch.setattr(relay_turn, "QUEUE_REPORT_AFTER", PATIENCE)


@pytest.fixture
async def http() -> AsyncGenerator[httpx.AsyncClient]:
    """A plain HTTP client."""
    async with httpx.AsyncClient(timeout=20, trust_env=False, verify=False) as client:
        yield client
