"""Makes a plan from the user's options, and refuses what cannot work before anything starts."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from pallas_cli.broker import store_bytes
from pallas_cli.broker_config.users import Seeds
from pallas_cli.embedded.nats import EmbeddedNats
from pallas_cli.embedded.postgres import EmbeddedPostgres
from pallas_cli.embedded.redis import EmbeddedRedis
from pallas_cli.processes.fast_agent import fast_agent_python
from pallas_cli.refused import Refused
from pallas_cli.stack.accounts import find_accounts
from pallas_cli.stack.data import SECRETS, broker_key, kept_secret
from pallas_cli.stack.demo_servers import DemoServers
from pallas_cli.stack.local_fleet import local_fleet
from pallas_cli.stack.options import External, StackOptions
from pallas_cli.stack.plan import AuthSide, FleetSide, Plan
from pallas_cli.stack.ports import LOOPBACK, Ports, require_free
from pallas_cli.team_folders import TeamSummary


def make_plan(
    options: StackOptions,
    external: External,
    data: Path,
    teams: Sequence[TeamSummary],
    *,
    demo: bool,
    report: Callable[[str], None],
) -> Plan:
    """Choose servers, ports and addresses. With `demo`, the demo team's servers are included.

    `report` is told what has to be installed.

    Raises:
        Refused: a binary is missing or cannot be installed, a needed port is in use, or the local fleet cannot be.
    """
    ports = Ports(options.port_base)
    nats = _nats(data, ports, teams) if external.nats is None else None
    redis = _redis(data, ports) if _wants(options, "redis", external.redis) else None
    postgres = _postgres(data, ports) if _wants(options, "postgres", external.postgres) else None
    _require_binaries(options, nats, redis, postgres)
    redis_url = external.redis or (redis.url if redis else None)
    postgres_url = external.postgres or (postgres.url if postgres else None)
    agents = {port + ports.of_agents for team in teams for port in team.ports}
    foreign = {team.name: team.folder for team in teams if team.fast_agent}
    plan = Plan(
        data=data,
        nats=nats,
        redis=redis,
        postgres=postgres,
        nats_url=external.nats or f"nats://127.0.0.1:{ports.nats}",
        redis_url=redis_url,
        postgres_url=postgres_url,
        teams=tuple(team.folder for team in teams),
        registry_port=ports.registry,
        gateway_ports=tuple(ports.gateways(options.gateways, agents)),
        agent_port_offset=ports.of_agents,
        demo=DemoServers.at(ports) if demo else None,
        workers=options.workers,
        slots=options.slots,
        drain_seconds=options.drain_seconds,
        pipelines_port=ports.pipelines,
        data_pool_port=ports.data_pool,
        fleet=_fleet_side(ports, external.coder),
        demo_agents=demo and (os.environ.get("PALLAS_GATEWAY_AUTH") or "off") == "off",
        auth=_auth_side(ports, data, redis_url, postgres_url) if options.auth else None,
        fast_agent=foreign,
        fast_agent_python=fast_agent_python(os.environ, report) if foreign else None,
    )
    require_free(plan.fixed_ports())
    return plan


def _nats(data: Path, ports: Ports, teams: Sequence[TeamSummary]) -> EmbeddedNats:
    agents = {team.name: team.agents for team in teams}
    return EmbeddedNats(
        data / "nats",
        Seeds(data / SECRETS / "nats"),
        broker_key(data),
        ports.nats,
        ports.nats_monitor,
        agents=agents,
        store_bytes=store_bytes(),
    )


def _redis(data: Path, ports: Ports) -> EmbeddedRedis:
    return EmbeddedRedis(data / "redis", kept_secret(data, "redis-password"), ports.redis)


def _postgres(data: Path, ports: Ports) -> EmbeddedPostgres:
    return EmbeddedPostgres(data / "postgres", kept_secret(data, "postgres-password"), ports.postgres)


def _wants(options: StackOptions, server: str, external: str | None) -> bool:
    return (options.auth or server in options.servers) and external is None


def _require_binaries(
    options: StackOptions, nats: EmbeddedNats | None, *others: EmbeddedRedis | EmbeddedPostgres | None
) -> None:
    if nats is not None:
        nats.binary()
    try:
        for server in others:
            if server is not None:
                server.binary()
    except Refused as refusal:
        if not options.auth:
            raise
        [line] = refusal.lines
        raise Refused(
            f"{line}; set PALLAS_REDIS_URL and PALLAS_POSTGRES_URL to use other servers, or start with --no-auth"
        ) from refusal


def _fleet_side(ports: Ports, coder: str | None) -> FleetSide:
    local = local_fleet(os.environ)
    if coder is not None:
        return FleetSide(ports.fleet, coder.rstrip("/"))
    return FleetSide(ports.fleet, f"http://{LOOPBACK}:{ports.coder}", ports.coder, local)


def _auth_side(ports: Ports, data: Path, redis_url: str | None, postgres_url: str | None) -> AuthSide:
    assert redis_url is not None, "the auth services need Redis"
    assert postgres_url is not None, "the auth services need Postgres"
    accounts = find_accounts(data, os.environ)
    return AuthSide(ports.team_lifecycle, ports.library_search, ports.workspaces, redis_url, postgres_url, accounts)
