"""Turns while no collector takes their spans: they are not delayed, and the outage is logged once."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM
from uuid import uuid4

import httpx
from mcp import Client
from tests.embedded import NatsServer, free_port
from tests.integration.processes import Service, a_service
from tests.integration.real_parts import a_lab, until
from tests.otlp import collecting
from tests.waiting import soon, timing, within

from pallas_bus.connection import connect
from pallas_contracts.catalog import CLI
from pallas_turns.history.turns import read_turns

TRIES_FOR = 4.0
"""Seconds for which an exporter tries one batch."""

SMALL = {
    "OTEL_EXPORTER_OTLP_TIMEOUT": str(TRIES_FOR),
    "OTEL_BSP_SCHEDULE_DELAY": "50",
    "OTEL_BSP_MAX_QUEUE_SIZE": "64",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "16",
}
"""A queue that is full after a few turns."""

AWAY, AGAIN = "the collector takes no spans; they are dropped", "the collector takes spans again"


@dataclass
class Traced:
    """A gateway and a worker that would send their spans to a port, and a caller of their agent."""

    team: str
    gateway: Service
    worker: Service
    client: Client

    async def calls(self, number: int) -> float:
        """Make `number` calls. Returns the longest time of one."""
        longest = 0.0
        for _ in range(number):
            async with timing() as watch:
                assert not (await self.client.call_tool("say", {"text": "hello"})).is_error
            longest = max(longest, watch.seconds)
        return longest

    def logged(self, event: str) -> list[int]:
        """How often the gateway and the worker have logged an event."""
        return [service.log.read_text("utf-8").count(f'"{event}"') for service in (self.gateway, self.worker)]

    async def until_logged(self, event: str) -> None:
        """Wait until both have logged an event."""

        async def look() -> bool:
            return 0 not in self.logged(event)

        await until(look, 30)


@asynccontextmanager
async def traced(url: str, folder: Path, port: int, protocol: str) -> AsyncGenerator[Traced]:
    """A running gateway and worker."""
    team = f"away-{uuid4().hex[:6]}"
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
    variables = {**SMALL, **endpoint}
    teams = str(a_lab(folder / team, team))
    async with (
        a_service("agent_gateway", url, folder, f"gateway-{team}", variables, agent_ports="false") as gateway,
        a_service("agent_worker", url, folder, f"worker-{team}", variables, teams=teams) as worker,
    ):
        await gateway.ready()
        await worker.ready()
        agent = f"{gateway.base}/teams/{team}/mcp/bench"
        await until(lambda: served(agent))
        async with Client(agent) as client:
            yield Traced(team, gateway, worker, client)


async def served(agent: str) -> bool:
    """Whether the gateway has an agent."""
    async with httpx.AsyncClient(trust_env=False) as http:
        return (await http.put(agent)).status_code == 405


@contextmanager
def silent_port(*, silent: bool) -> Generator[int]:
    """A port without a listener or, if `silent`, with one that never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if silent:
            listener.listen()
        yield listener.getsockname()[1]


async def test_without_a_collector_turns_are_answered_at_once_and_processes_end(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    cases = (("grpc", False), ("http/protobuf", True))
    await asyncio.gather(*(ends_in_time(nats_server.url, tmp_path, *case) for case in cases))


async def ends_in_time(url: str, folder: Path, protocol: str, silent: bool) -> None:
    """Make turns without a collector, or with a silent one, and stop the processes."""
    with silent_port(silent=silent) as port:
        async with traced(url, folder, port, protocol) as parts:
            longest = await parts.calls(30)
            await parts.until_logged(AWAY)
            assert max(longest, await parts.calls(30)) < TRIES_FOR / 2, protocol
            async with connect(url, CLI) as people:
                turns = await read_turns(people, team=parts.team)
            assert [turn.state for turn in turns] == ["completed"] * 60, protocol
            services = (parts.worker, parts.gateway)
            for service in services:
                service.send(SIGTERM)
            async with within(TRIES_FOR):
                assert await soon(asyncio.gather(*(service.process.wait() for service in services))) == [0, 0]
            assert parts.logged(AWAY) == [1, 1], protocol
            logs = [service.log.read_text("utf-8") for service in services]
            assert [log for log in logs if "Traceback" in log or '"logger": "opentelemetry' in log] == []


async def test_spans_are_sent_again_once_the_collector_is_back(nats_server: NatsServer, tmp_path: Path) -> None:
    await asyncio.gather(*(are_sent_again(nats_server.url, tmp_path, each) for each in ("http/protobuf", "grpc")))


async def are_sent_again(url: str, folder: Path, protocol: str) -> None:
    """Make a turn without a collector, and one with it."""
    port = free_port()
    async with traced(url, folder, port, protocol) as parts:
        await parts.calls(1)
        await parts.until_logged(AWAY)
        where = {"grpc_port": port} if protocol == "grpc" else {"http_port": port}
        async with collecting(**where) as collector:
            await parts.calls(1)
            both = {parts.gateway.instance, parts.worker.instance}
            await collector.until(lambda: both <= {span.instance for span in collector.spans}, 30)
            await parts.until_logged(AGAIN)
    assert parts.logged(AWAY) == parts.logged(AGAIN) == [1, 1], protocol
