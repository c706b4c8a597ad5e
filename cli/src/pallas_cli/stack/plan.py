"""The plan of a stack, made before its first process starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pallas_cli.embedded.nats import EmbeddedNats
from pallas_cli.embedded.postgres import EmbeddedPostgres
from pallas_cli.embedded.redis import EmbeddedRedis
from pallas_cli.parts import Part
from pallas_cli.stack.accounts import Accounts
from pallas_cli.stack.databases import without_user
from pallas_cli.stack.demo_servers import DemoServers
from pallas_cli.stack.local_fleet import LocalFleet
from pallas_cli.stack.ports import LOOPBACK


@dataclass(frozen=True, slots=True)
class AuthSide:
    """The auth services: their ports, servers and accounts."""

    team_lifecycle_port: int
    library_search_port: int
    workspaces_port: int
    redis_url: str = field(repr=False)
    postgres_url: str = field(repr=False)
    accounts: Accounts

    @property
    def team_lifecycle_url(self) -> str:
        """Base address of the API for Daedalus and the admin API."""
        return f"http://{LOOPBACK}:{self.team_lifecycle_port}"

    @property
    def library_search_url(self) -> str:
        """Base address of library-search."""
        return f"http://{LOOPBACK}:{self.library_search_port}"

    @property
    def workspaces_url(self) -> str:
        """Address of the console."""
        return f"http://{LOOPBACK}:{self.workspaces_port}"


@dataclass(frozen=True, slots=True)
class FleetSide:
    """The fleet, and its Coder: a stand-in at `coder_port`, or the one at `coder_url` if that is None.

    `local` are the programs that the stand-in runs, if they are not for a demo only.
    """

    port: int
    coder_url: str
    coder_port: int | None = None
    local: LocalFleet | None = None

    @property
    def url(self) -> str:
        """Address of the service. Its agent is called at a gateway."""
        return f"http://{LOOPBACK}:{self.port}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is started. A server that is None runs elsewhere or is not needed; with `--no-auth`, `auth` is None.

    `demo_agents` are the demo's data agents. They have no bearer, so they are started only while none is asked for.
    `fast_agent` are the folders, by team, that need a worker with fast-agent, and `fast_agent_python` is its Python.
    `agent_port_offset` is added to the dedicated ports of agents.
    """

    data: Path
    nats: EmbeddedNats | None
    redis: EmbeddedRedis | None
    postgres: EmbeddedPostgres | None
    nats_url: str
    redis_url: str | None = field(repr=False)
    postgres_url: str | None = field(repr=False)
    teams: tuple[Path, ...]
    registry_port: int
    gateway_ports: tuple[int, ...]
    demo: DemoServers | None
    workers: int
    slots: int | None
    drain_seconds: float
    pipelines_port: int
    data_pool_port: int
    fleet: FleetSide
    demo_agents: bool = False
    agent_port_offset: int = 0
    fast_agent: Mapping[str, Path] = field(default_factory=dict[str, Path])
    fast_agent_python: Path | None = None
    auth: AuthSide | None = None

    @property
    def cli_seed(self) -> Path | None:
        """The seed file with which commands connect to the broker; None if the broker runs elsewhere."""
        return self.nats.seeds.path("cli") if self.nats is not None else None

    @property
    def registry_url(self) -> str:
        """Base address of the catalogue."""
        return f"http://{LOOPBACK}:{self.registry_port}"

    @property
    def pipelines_url(self) -> str:
        """Base address of the HTTP API of pipelines."""
        return f"http://{LOOPBACK}:{self.pipelines_port}"

    @property
    def data_pool_url(self) -> str:
        """Base address of the data-pool, to which data agents connect."""
        return f"http://{LOOPBACK}:{self.data_pool_port}"

    @property
    def gateway_urls(self) -> list[str]:
        """Base address of every gateway, the first one first."""
        return [f"http://{LOOPBACK}:{port}" for port in self.gateway_ports]

    @property
    def addresses(self) -> dict[Part, str | None]:
        """What commands connect to; None if it is not started."""
        return {
            "nats": self.nats_url,
            "postgres": without_user(self.auth.postgres_url) if self.auth else None,
            "registry": self.registry_url,
            "gateway": self.gateway_urls[0],
            "team_lifecycle": self.auth.team_lifecycle_url if self.auth else None,
            "library_search": self.auth.library_search_url if self.auth else None,
            "pipelines": self.pipelines_url,
            "data_pool": self.data_pool_url,
            "workspaces": self.auth.workspaces_url if self.auth else None,
        }

    def fixed_ports(self) -> dict[str, int]:
        """Ports that must be free, by the process that needs them."""
        ports = {"registry": self.registry_port, "pipelines": self.pipelines_port, "data-pool": self.data_pool_port}
        ports["fleet"] = self.fleet.port
        ports |= {f"agent-gateway-{n}": port for n, port in enumerate(self.gateway_ports, 1)}
        if self.nats is not None:
            ports |= {"nats-server": self.nats.port, "nats-server's monitoring": self.nats.monitor_port}
        if self.redis is not None:
            ports["redis-server"] = self.redis.port
        if self.postgres is not None:
            ports["postgres"] = self.postgres.port
        if self.demo is not None:
            ports["demo-tools"] = self.demo.tools_port
        if self.fleet.coder_port is not None:
            ports["coder"] = self.fleet.coder_port
        if self.auth is not None:
            ports["team-lifecycle"] = self.auth.team_lifecycle_port
            ports["library-search"] = self.auth.library_search_port
            ports["workspaces"] = self.auth.workspaces_port
        return ports
