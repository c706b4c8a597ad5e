"""The processes of a stack: which there are, what each is told, and how it is known to be ready.

A service is told everything through its environment. Adding a service means adding one entry to `service_specs`.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pallas_cli.embedded.nats import EmbeddedNats
from pallas_cli.embedded.postgres import EmbeddedPostgres
from pallas_cli.embedded.redis import EmbeddedRedis
from pallas_cli.stack.data import kept_secret
from pallas_cli.stack.launch import Launch, ProcessSpec
from pallas_cli.stack.ports import LOOPBACK, free_port
from pallas_cli.stack.probes import accepts, answers_ok

DEMO_TOOLS_VARIABLE = "PALLAS_DEMO_TOOLS_URL"

SERVERS, TOOLS, SERVICES = range(3)
"""The stages: servers start first and stop last, and the demo tools outlive the turns that call them."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything decided before the first process starts. A server that is None runs elsewhere or is not needed."""

    data: Path
    nats: EmbeddedNats | None
    redis: EmbeddedRedis | None
    postgres: EmbeddedPostgres | None
    nats_url: str
    redis_url: str | None
    postgres_url: str | None
    teams: tuple[Path, ...]
    registry_port: int
    gateway_ports: tuple[int, ...]
    demo_tools_port: int | None
    workers: int
    slots: int | None
    drain_seconds: float

    @property
    def registry_url(self) -> str:
        """Base address of the catalogue."""
        return f"http://{LOOPBACK}:{self.registry_port}"

    @property
    def gateway_urls(self) -> list[str]:
        """Base address of every gateway, the first one first."""
        return [f"http://{LOOPBACK}:{port}" for port in self.gateway_ports]

    def fixed_ports(self) -> dict[str, int]:
        """Ports that must be free, by the label of the process that needs them."""
        ports = {"registry": self.registry_port}
        ports |= {f"agent-gateway-{n}": port for n, port in enumerate(self.gateway_ports, 1)}
        if self.nats is not None:
            ports |= {"nats-server": self.nats.port, "nats-server's monitoring": self.nats.monitor_port}
        if self.redis is not None:
            ports["redis-server"] = self.redis.port
        if self.postgres is not None:
            ports["postgres"] = self.postgres.port
        if self.demo_tools_port is not None:
            ports["demo-tools"] = self.demo_tools_port
        return ports


def demo_tools_url(port: int) -> str:
    """Where the demo team finds its tools."""
    return f"http://{LOOPBACK}:{port}/mcp"


def all_specs(plan: Plan) -> list[ProcessSpec]:
    """Return every process of the stack, in the order in which the processes of a stage are told to stop."""
    return [*service_specs(plan), *_demo_tools(plan), *server_specs(plan)]


def server_specs(plan: Plan) -> list[ProcessSpec]:
    """Return the servers that this stack runs itself."""
    servers = (("nats-server", plan.nats), ("redis-server", plan.redis), ("postgres", plan.postgres))
    return [ProcessSpec(name, 1, SERVERS, server.launch) for name, server in servers if server is not None]


def service_specs(plan: Plan) -> list[ProcessSpec]:
    """Return Pallas's own services: gateways first, so that no new turn comes in while the others drain."""
    teams = {"PALLAS_TEAMS": os.pathsep.join(str(team) for team in plan.teams)}
    worker = teams | ({"PALLAS_SLOTS": str(plan.slots)} if plan.slots is not None else {})
    public = os.environ.get("PALLAS_PUBLIC_URL") or plan.gateway_urls[0]
    specs: list[ProcessSpec] = []
    for number, (port, url) in enumerate(zip(plan.gateway_ports, plan.gateway_urls, strict=True), 1):
        own = {
            "PALLAS_PUBLIC_URL": os.environ.get("PALLAS_PUBLIC_URL") or url,
            "PALLAS_AGENT_PORTS": "true",
            "PALLAS_REQUEST_STATE_KEY": kept_secret(plan.data, "request-state"),
            "PALLAS_LOG_KEY": kept_secret(plan.data, "log-key"),
        }
        specs.append(_service(plan, "agent-gateway", number, own, port))
    specs += [_service(plan, "agent-worker", number, worker) for number in range(1, plan.workers + 1)]
    specs.append(_service(plan, "registry", 1, {"PALLAS_PUBLIC_URL": public}, plan.registry_port))
    specs.append(_service(plan, "health-monitor", 1, teams))
    return specs


def _service(plan: Plan, name: str, number: int, env: Mapping[str, str], port: int | None = None) -> ProcessSpec:
    """A service on a fixed port, or on another free one at every start."""

    async def prepare() -> Launch:
        bound = free_port() if port is None else port
        return Launch(
            command=(sys.executable, "-m", name.replace("-", "_")),
            ready=answers_ok(f"http://{LOOPBACK}:{bound}/readyz"),
            env={**_common(plan), "PALLAS_HOST": LOOPBACK, "PALLAS_PORT": str(bound), **env},
        )

    return ProcessSpec(name, number, SERVICES, prepare)


def _demo_tools(plan: Plan) -> Sequence[ProcessSpec]:
    port = plan.demo_tools_port
    if port is None:
        return ()

    async def prepare() -> Launch:
        return Launch(
            command=(sys.executable, "-m", "pallas_demo", "--port", str(port)),
            ready=accepts(LOOPBACK, port),
            env=_common(plan),
        )

    return (ProcessSpec("demo-tools", 1, TOOLS, prepare),)


def _common(plan: Plan) -> dict[str, str]:
    """What every process is told; the user's own log level wins."""
    env = {
        "PALLAS_NATS_URL": plan.nats_url,
        "PALLAS_DRAIN_SECONDS": f"{plan.drain_seconds:g}",
        "PALLAS_LOG_LEVEL": os.environ.get("PALLAS_LOG_LEVEL") or "INFO",
        "PALLAS_LOG_FORMAT": "json",
        "PYTHONUNBUFFERED": "1",
    }
    if plan.redis_url is not None:
        env["PALLAS_REDIS_URL"] = plan.redis_url
    if plan.postgres_url is not None:
        env["PALLAS_POSTGRES_URL"] = plan.postgres_url
    if plan.demo_tools_port is not None:
        env[DEMO_TOOLS_VARIABLE] = demo_tools_url(plan.demo_tools_port)
    return env
