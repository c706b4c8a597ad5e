"""Workers and gateways as their processes build them, in the test's process, with real brokers and ports."""

import asyncio
import json
import shutil
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mcp import Client
from tests.waiting import PATIENCE, eventually

from agent_gateway.app import Gateway
from agent_gateway.app import build as build_gateway
from agent_gateway.settings import GatewaySettings
from agent_worker.app import build as build_worker
from pallas_bus.connection import Bus
from pallas_bus.reads import read
from pallas_contracts.catalog import BUCKETS, GATEWAY, STREAMS
from pallas_hosting.worker import WorkerSettings
from pallas_runtime.http.listener import bind, listening
from pallas_runtime.probes import Probes, with_probes
from pallas_runtime.process import Process
from pallas_runtime.run import Served
from pallas_runtime.settings import Settings
from pallas_turns.executor import Executor

OWNED = [thing for thing in (*STREAMS, *BUCKETS) if thing.owner == GATEWAY]
"""The streams and buckets that gateways declare."""

_LOOK_AGAIN = 0.02

LAB = Path(__file__).parent / "teams" / "lab"


def a_lab(folder: Path, team: str, edit: Callable[[str], str] = lambda text: text) -> Path:
    """A copy of the lab under another team name, to host and to change."""
    shutil.copytree(LAB, folder, ignore=shutil.ignore_patterns("__pycache__"))
    described = folder / "agents.yaml"
    described.write_text(edit(described.read_text("utf-8").replace("name: lab\n", f"name: {team}\n")), "utf-8")
    return folder


async def stored(bus: Bus) -> dict[str, bytes]:
    """All data in the broker by stream, buckets too: subjects, headers and bodies."""
    names: list[str] = [each["config"]["name"] for each in (await bus.api("STREAM.LIST", {}))["streams"]]
    found: dict[str, bytes] = {}
    for name in names:
        records = [record async for record in read(bus, name, ">")]
        found[name] = b"\n".join(
            record.subject.encode() + json.dumps(record.headers).encode() + record.data for record in records
        )
    return found


def a_process(service: str) -> Process:
    """The process of a service that does not listen on a port."""
    return Process(service, f"{service}-{uuid.uuid4().hex[:8]}", 0, Probes())


def measured(process: Process, metric: str, **labels: str) -> float:
    """The value of a metric, or 0 if it was never counted."""
    return process.probes.metrics.get_sample_value(metric, labels) or 0.0


@asynccontextmanager
async def a_worker(
    url: str, *folders: Path, slots: int = 8, process: Process | None = None, **settings: str
) -> AsyncGenerator[Executor]:
    """A running worker. `settings` are its variables without their prefix.

    Leaving the block gives back what it runs, as at the end of a drain.
    """
    given = {"PALLAS_NATS_URL": url, "PALLAS_TEAMS": ":".join(map(str, folders)), "PALLAS_SLOTS": str(slots)}
    given |= {f"PALLAS_{name.upper()}": value for name, value in settings.items()}
    process = process or a_process("agent-worker")
    async with build_worker(WorkerSettings.from_env(given), process) as worker:
        process.probes.started = True
        yield worker


@dataclass(frozen=True)
class Front:
    """A running gateway, as its callers see it."""

    gateway: Gateway
    process: Process
    base: str

    def url(self, team: str, agent: str) -> str:
        """The endpoint of an agent."""
        return f"{self.base}/teams/{team}/mcp/{agent}"

    def client(self, team: str, agent: str, era: Literal["auto", "legacy"] = "auto", **options: Any) -> Client:
        """The official client, not yet connected."""
        return Client(self.url(team, agent), mode=era, **options)

    async def serves(self, team: str, agent: str) -> None:
        """Wait until it has the endpoint of an agent. Before that, the official client takes it for an older server."""
        await eventually(lambda: not isinstance(self.gateway.http.endpoints.find(team, agent), str))

    def counted(self, metric: str, **labels: str) -> float:
        """The value of a metric, or 0 if it was never counted."""
        return measured(self.process, metric, **labels)


@asynccontextmanager
async def listening_service[S: Settings, R: Served](
    service: str,
    settings: type[S],
    build: Callable[[S, Process], AbstractAsyncContextManager[R]],
    given: Mapping[str, str],
    *,
    websockets: bool = False,
) -> AsyncGenerator[tuple[R, Process]]:
    """A service that listens on a free port, and its process. `given` are its variables without their prefix."""
    listener = bind("127.0.0.1", 0)
    process = Process(service, f"{service}-{uuid.uuid4().hex[:8]}", listener.getsockname()[1], Probes())
    environ = {f"PALLAS_{name.upper()}": value for name, value in given.items()}
    async with build(settings.from_env(environ), process) as running:
        process.probes.started = True
        app = with_probes(process.probes, lambda: running.http)
        async with listening(app, listener, drain_seconds=2, websockets=websockets):
            yield running, process


@asynccontextmanager
async def a_gateway(url: str, **settings: str) -> AsyncGenerator[Front]:
    """A gateway that listens on a free port. `settings` are its variables without their prefix."""
    given = {"nats_url": url, "agent_ports": "false", "drain_seconds": "2", **settings}
    async with listening_service("agent-gateway", GatewaySettings, build_gateway, given) as (gateway, process):
        yield Front(gateway, process, f"http://127.0.0.1:{process.port}")


async def until(look: Callable[[], Awaitable[bool]], within: float = PATIENCE) -> None:
    """Poll until `look` returns True; for conditions without an event."""
    async with asyncio.timeout(within):
        while not await look():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(_LOOK_AGAIN)
