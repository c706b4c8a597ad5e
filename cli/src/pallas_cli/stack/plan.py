"""The plan of a stack: what the user's options and environment make of it, before its first process starts.

What cannot work is refused here.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from pallas_cli.broker import store_bytes
from pallas_cli.broker_config.users import Seeds
from pallas_cli.embedded.postgres import EmbeddedPostgres, without_user
from pallas_cli.embedded.servers import EmbeddedNats, EmbeddedRedis
from pallas_cli.parts import Part
from pallas_cli.processes.fast_agent import fast_agent_python
from pallas_cli.refused import Refused
from pallas_cli.stack.data import SECRETS, Accounts, find_accounts, kept_secret
from pallas_cli.stack.local_fleet import LocalFleet, local_fleet
from pallas_cli.stack.ports import DEFAULT_BASE, MONITORING, Ports, url_at
from pallas_cli.team_folders import TeamSummary


@dataclass(frozen=True, slots=True)
class StackOptions:
    """The options of the command line. Without `teams` the stack hosts the demo team, without `auth` it has no auth
    services. `servers` are started besides NATS ("redis", "postgres"). Times are in seconds."""

    data: Path
    teams: tuple[Path, ...] = ()
    workers: int = 1
    gateways: int = 1
    slots: int | None = None
    port_base: int = DEFAULT_BASE
    auth: bool = True
    servers: frozenset[str] = frozenset()
    ready_file: Path | None = None
    turn: bool | None = None
    stay: bool = True
    drain_seconds: float = 5.0
    start_timeout: float = 90.0


@dataclass(frozen=True, slots=True)
class External:
    """Addresses of servers that run elsewhere. A server with an address is not started."""

    nats: str | None = field(default=None, repr=False)
    redis: str | None = field(default=None, repr=False)
    postgres: str | None = field(default=None, repr=False)
    coder: str | None = None

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read `PALLAS_NATS_URL` and so on; empty: not set."""
        return cls(*(environ.get(f"PALLAS_{name}_URL") or None for name in ("NATS", "REDIS", "POSTGRES", "CODER")))


@dataclass(frozen=True, slots=True)
class Plan:
    """What is started.

    A server that is None runs elsewhere (`external`) or is not needed. With `demo` the demo team's servers are started,
    with `--no-auth` there are no `accounts`. `local` are the programs that the stand-in for Coder runs, if they are not
    for a demo only. `fast_agent_python` runs the workers of the teams that need fast-agent.
    """

    options: StackOptions
    external: External
    data: Path
    teams: tuple[TeamSummary, ...]
    demo: bool
    gateway_ports: tuple[int, ...]
    nats: EmbeddedNats | None
    redis: EmbeddedRedis | None = None
    postgres: EmbeddedPostgres | None = None
    accounts: Accounts | None = None
    local: LocalFleet | None = None
    fast_agent_python: Path | None = None

    @property
    def ports(self) -> Ports:
        """The fixed ports."""
        return Ports(self.options.port_base)

    def url(self, service: str) -> str:
        """The base address of a service with a fixed port, whether or not it is started."""
        return url_at(self.ports.of(service))

    @property
    def gateway_urls(self) -> list[str]:
        """Base address of every gateway, the first one first."""
        return [url_at(port) for port in self.gateway_ports]

    @property
    def public_url(self) -> str:
        """The address at which callers reach the gateways."""
        return os.environ.get("PALLAS_PUBLIC_URL") or self.gateway_urls[0]

    @property
    def nats_url(self) -> str:
        """The address of the broker."""
        return self.external.nats or (self.nats.url if self.nats else "")

    @property
    def redis_url(self) -> str | None:
        """The address of Redis, with its password."""
        return self.external.redis or (self.redis.url if self.redis else None)

    @property
    def postgres_url(self) -> str | None:
        """The address of Postgres, with its password."""
        return self.external.postgres or (self.postgres.url if self.postgres else None)

    @property
    def coder_url(self) -> str:
        """The address of Coder, or of the stand-in for it."""
        return (self.external.coder or self.url("coder")).rstrip("/")

    @property
    def cli_seed(self) -> Path | None:
        """The seed file with which commands connect to the broker; None if the broker runs elsewhere."""
        return self.nats.seeds.path("cli") if self.nats is not None else None

    @property
    def demo_agents(self) -> bool:
        """Whether the demo's data agents are started. They have no bearer, so only while none is asked for."""
        return self.demo and (os.environ.get("PALLAS_GATEWAY_AUTH") or "off") == "off"

    @property
    def fast_agent(self) -> Sequence[TeamSummary]:
        """The teams that need a worker with fast-agent."""
        return [team for team in self.teams if team.fast_agent]

    @property
    def addresses(self) -> dict[Part, str | None]:
        """What commands connect to; None if it is not started."""
        auth, postgres = self.accounts is not None, self.postgres_url
        return {
            "nats": self.nats_url,
            "postgres": without_user(postgres) if auth and postgres else None,
            "registry": self.url("registry"),
            "gateway": self.gateway_urls[0],
            "team_lifecycle": self.url("team-lifecycle") if auth else None,
            "library_search": self.url("library-search") if auth else None,
            "pipelines": self.url("pipelines"),
            "data_pool": self.url("data-pool"),
            "workspaces": self.url("workspaces") if auth else None,
        }


def make_plan(
    options: StackOptions,
    external: External,
    data: Path,
    teams: Sequence[TeamSummary],
    *,
    demo: bool,
    report: Callable[[str], None],
) -> Plan:
    """Choose servers and ports. `report` is told what has to be installed.

    Raises:
        Refused: a binary is missing or cannot be installed, or the local fleet cannot be.
    """
    ports = Ports(options.port_base)
    agents = {port + ports.of_agents for team in teams for port in team.ports}
    plan = Plan(
        options,
        external,
        data,
        tuple(teams),
        demo,
        gateway_ports=tuple(ports.gateways(options.gateways, agents)),
        nats=None if external.nats else _nats(data, ports, teams),
        redis=_redis(data, ports) if _wants(options, "redis", external.redis) else None,
        postgres=_postgres(data, ports) if _wants(options, "postgres", external.postgres) else None,
        accounts=find_accounts(data, os.environ) if options.auth else None,
        local=local_fleet(os.environ),
        fast_agent_python=fast_agent_python(os.environ, report) if any(team.fast_agent for team in teams) else None,
    )
    _require_binaries(plan)
    return plan


def _nats(data: Path, ports: Ports, teams: Sequence[TeamSummary]) -> EmbeddedNats:
    return EmbeddedNats(
        data / "nats",
        Seeds(data / SECRETS / "nats"),
        ports.of("nats-server"),
        ports.of(MONITORING),
        agents={team.name: team.agents for team in teams},
        store_bytes=store_bytes(),
    )


def _redis(data: Path, ports: Ports) -> EmbeddedRedis:
    return EmbeddedRedis(data / "redis", kept_secret(data, "redis-password"), ports.of("redis-server"))


def _postgres(data: Path, ports: Ports) -> EmbeddedPostgres:
    return EmbeddedPostgres(data / "postgres", kept_secret(data, "postgres-password"), ports.of("postgres"))


def _wants(options: StackOptions, server: str, external: str | None) -> bool:
    return (options.auth or server in options.servers) and external is None


def _require_binaries(plan: Plan) -> None:
    if plan.nats is not None:
        plan.nats.binary()
    try:
        for server in (plan.redis, plan.postgres):
            if server is not None:
                server.binary()
    except Refused as refusal:
        if not plan.options.auth:
            raise
        [line] = refusal.lines
        raise Refused(
            f"{line}; set PALLAS_REDIS_URL and PALLAS_POSTGRES_URL to use other servers, or start with --no-auth"
        ) from refusal
