"""The table of processes: each process of a stack, with its command and variables, and when it is started and stopped.

A new service is a new row of `TABLE`, at the end.
"""

import asyncio
import hmac
import os
import sys
import threading
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pallas_cli.embedded.postgres import EmbeddedPostgres, database_url, ensure_database
from pallas_cli.embedded.servers import EmbeddedNats, EmbeddedRedis
from pallas_cli.private_files import PRIVATE_FOLDER
from pallas_cli.processes.child import Launch, Probe
from pallas_cli.processes.environment import server_environment, service_environment, team_environment
from pallas_cli.processes.probes import accepts, answers_ok, is_known
from pallas_cli.processes.supervisor import ProcessSpec
from pallas_cli.stack.data import Accounts, kept_secret
from pallas_cli.stack.local_fleet import LocalFleet
from pallas_cli.stack.plan import Plan
from pallas_cli.stack.ports import LOOPBACK, MONITORING, OFFSETS, demo_addresses, free_port, url_at
from pallas_contracts.catalog import SERVICES as SERVICE_NAMES

SERVERS, TOOLS, SERVICES = range(3)
"""The stages of a stop: services first, then the tools that turns call, then the servers."""

_BROKER = frozenset({"nats-server"})
_AGENTS = _BROKER | {"agent-gateway", "agent-worker", "fast-agent-worker", "demo-tools"}
"""Agents answer as soon as these are ready and the registry lists them. The other processes start after them."""
_WATCHED = _AGENTS | {"registry", "health-monitor"}
"""Behind these the fleet and the auth services start. The registry is ready when it has read the health that the health
monitor publishes, so the monitor cannot wait for it."""
_AUTH = _WATCHED | {"redis-server", "postgres"}

_NO_TLS = {"PALLAS_NATS_CA": "", "PALLAS_NATS_CA_FILE": ""}
"""The stack's own broker uses no TLS, even if the environment configures it for another broker."""
_FLEET_CALLERS = "peer,user,team,turn,token"
"""Who may use the fleet of this machine's user, each only the agents that they have made."""
_API_KEYS = ("PALLAS_CONSTELLATION_API_KEYS", "PALLAS_CONSTELLATION_API_KEYS_FILE")
_OF_THE_CONSOLE = (
    "MNEMOSYNE_FERNET_KEY",
    "MNEMOSYNE_FERNET_KEY_FILE",
    "PALLAS_FERNET_KEY",
    "PALLAS_FERNET_KEY_FILE",
    "PALLAS_AGENT_TOKEN",
    "PALLAS_AGENT_TOKEN_FILE",
    "DAEDALUS_MCP_HEALTH_INTERVAL",
    "DAEDALUS_RECONCILE_INTERVAL",
)
"""Variables that only the console inherits."""
_LAST_DEMO_AGENT = "example_lib"
_CHECKOUT = Path(__file__).parents[4]

type Variables = Callable[[Plan, int], Awaitable[Mapping[str, str]]]
"""Returns the variables of one service, before each start: of this plan, and the replica with this index."""


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of process.

    `launch` says how the process with this name and index is started, before each start. It is started when all
    processes of the rows in `needs` are ready. `names` are those of its processes in a plan, the same one for replicas;
    or whether there is one of this name.
    """

    name: str
    launch: Callable[[Plan, str, int], Awaitable[Launch]]
    needs: frozenset[str] = _BROKER
    stage: int = SERVICES
    names: Callable[[Plan], Sequence[str] | bool] = lambda _: True

    def of(self, plan: Plan) -> Sequence[str]:
        """The names of its processes in a plan."""
        names = self.names(plan)
        return (self.name,) if names is True else names or ()


def all_specs(plan: Plan) -> list[ProcessSpec]:
    """Return every process of the stack, in the order of the stop signals within a stage."""
    names = {row.name: row.of(plan) for row in TABLE}
    return [
        ProcessSpec(
            name,
            names[row.name][: index + 1].count(name),
            row.stage,
            partial(row.launch, plan, name, index),
            frozenset(needed for need in row.needs for needed in names[need]),
        )
        for row in TABLE
        for index, name in enumerate(names[row.name])
    ]


def imported(plan: Plan) -> list[str]:
    """The modules that the fork server imports, in the order in which they are needed."""
    rows = [row for row in sorted(TABLE, key=lambda row: len(row.needs)) if row.of(plan)]
    services = [f"{row.name.replace('-', '_')}.app" for row in rows if row.name in SERVICE_NAMES]
    return [*services, "pallas_demo.server"] if plan.demo else services


def fixed_ports(plan: Plan) -> dict[str, int]:
    """Ports that must be free, by the process that needs them."""
    ports = {
        row.name: plan.ports.of(row.name)
        for row in TABLE
        if row.name in OFFSETS and row.name != "agent-gateway" and row.of(plan)
    }
    ports |= {f"agent-gateway-{number}": port for number, port in enumerate(plan.gateway_ports, 1)}
    return ports | ({MONITORING: plan.ports.of(MONITORING)} if plan.nats else {})


def _service(
    variables: Variables,
    *,
    inherited: Callable[[], dict[str, str]] = service_environment,
    module: str | None = None,
    user: str | None = None,
) -> Callable[[Plan, str, int], Awaitable[Launch]]:
    """A service on its fixed port, or on a free port that changes at every start.

    It is run with `python -m`, by default the module of its name, and is `user` at the broker, by default its name.
    Modules of the folder in which the user is are not imported (`-P`): a file `mcp.py` there would replace the package.
    Its environment is `inherited`, then the variables of all services, then `variables`.
    """

    async def launch(plan: Plan, name: str, index: int) -> Launch:
        gateway = name == "agent-gateway"
        port = plan.gateway_ports[index] if gateway else plan.ports.of(name) if name in OFFSETS else free_port()
        python = str(plan.fast_agent_python) if module else sys.executable
        own = await variables(plan, index)
        return Launch(
            command=(python, "-P", "-m", module or name.replace("-", "_")),
            ready=answers_ok(f"{url_at(port)}/readyz"),
            env={
                **inherited(),
                **_common(plan),
                "PALLAS_REVISION": os.environ.get("PALLAS_REVISION") or await _revision(),
                **_broker_user(plan, user or name),
                "PALLAS_HOST": LOOPBACK,
                "PALLAS_PORT": str(port),
                **own,
            },
        )

    return launch


def _broker_user(plan: Plan, name: str) -> dict[str, str]:
    """The seed of its user at the stack's own broker. At another broker the user's environment names the seed."""
    if plan.nats is None:
        return {}
    return {"PALLAS_NATS_SEED": "", "PALLAS_NATS_SEED_FILE": str(plan.nats.seeds.path(name)), **_NO_TLS}


def _common(plan: Plan) -> dict[str, str]:
    """The variables of every process. A log level of the user's environment is kept."""
    return {
        "PALLAS_NATS_URL": plan.nats_url,
        "PALLAS_DRAIN_SECONDS": f"{plan.options.drain_seconds:g}",
        "PALLAS_LOG_LEVEL": os.environ.get("PALLAS_LOG_LEVEL") or "INFO",
        "PALLAS_LOG_FORMAT": "json",
        "PYTHONUNBUFFERED": "1",
    }


async def _revision() -> str:
    """The first digits of the checkout's commit; `unknown` outside a checkout, and without git."""
    if not (_CHECKOUT / ".git").exists():
        return "unknown"
    with suppress(OSError):
        command = ("git", "-C", str(_CHECKOUT), "rev-parse", "--short=12", "HEAD")
        git = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=DEVNULL)
        return (await git.communicate())[0].decode().strip() or "unknown"
    return "unknown"


def _inherit(*names: str) -> dict[str, str]:
    """These variables of the environment, which only one service inherits."""
    return {name: os.environ[name] for name in names if name in os.environ}


def _log_key(plan: Plan) -> dict[str, str]:
    return {"PALLAS_LOG_KEY": kept_secret(plan.data, "log-key")}


def _teams(plan: Plan) -> dict[str, str]:
    folders = os.pathsep.join(str(team.folder) for team in plan.teams)
    return {"PALLAS_TEAMS": folders} | (demo_addresses(plan.ports) if plan.demo else {})


async def _gateway(plan: Plan, index: int) -> Mapping[str, str]:
    others = os.environ.get("PALLAS_RESERVED_PORTS")
    return {
        "PALLAS_PUBLIC_URL": os.environ.get("PALLAS_PUBLIC_URL") or plan.gateway_urls[index],
        "PALLAS_AGENT_PORTS": "true",
        "PALLAS_AGENT_PORT_OFFSET": str(plan.ports.of_agents),
        "PALLAS_RESERVED_PORTS": ",".join(map(str, [*fixed_ports(plan).values(), *([others] if others else [])])),
        "PALLAS_REQUEST_STATE_KEY": kept_secret(plan.data, "request-state"),
    } | _log_key(plan)


async def _worker(plan: Plan, _: int) -> Mapping[str, str]:
    slots = plan.options.slots
    return _teams(plan) | ({"PALLAS_SLOTS": str(slots)} if slots is not None else {})


async def _fast_agent_worker(plan: Plan, index: int) -> Mapping[str, str]:
    gateways = ",".join(dict.fromkeys((*plan.gateway_urls, plan.public_url)))
    beside = os.pathsep.join(str(team.folder) for team in plan.teams)
    return {
        "PALLAS_TEAMS": str(plan.fast_agent[index].folder),
        "PALLAS_BESIDE": beside,
        "PALLAS_GATEWAY_URLS": gateways,
    }


async def _registry(plan: Plan, _: int) -> Mapping[str, str]:
    return {"PALLAS_PUBLIC_URL": plan.public_url}


async def _pipelines(plan: Plan, _: int) -> Mapping[str, str]:
    return {"PALLAS_PUBLIC_URL": plan.url("pipelines")} | _log_key(plan) | _inherit(*_API_KEYS)


async def _data_pool(plan: Plan, _: int) -> Mapping[str, str]:
    return {"PALLAS_PUBLIC_URL": plan.url("data-pool"), "PALLAS_GATEWAY_URL": plan.public_url}


async def _fleet(plan: Plan, _: int) -> Mapping[str, str]:
    given = _inherit("PALLAS_CODER_TOKEN", "PALLAS_CODER_TOKEN_FILE")
    token = given if plan.external.coder else _kept_token(plan)
    allow = "PALLAS_FLEET_ALLOW"
    return {"PALLAS_CODER_URL": plan.coder_url, allow: os.environ.get(allow) or _FLEET_CALLERS} | token


async def _health_monitor(plan: Plan, _: int) -> Mapping[str, str]:
    return _teams(plan) | ({"PALLAS_NATS_MONITOR_URLS": plan.nats.monitor_url} if plan.nats else {})


async def _console(plan: Plan, _: int) -> Mapping[str, str]:
    accounts = _accounts(plan)
    return _inherit(*_OF_THE_CONSOLE) | {
        "PALLAS_POSTGRES_URL": await _database(plan, "workspaces"),
        "PALLAS_ADMIN_PASSWORD_HASH": await _hash(plan, accounts.admin_password),
        "PALLAS_SECRET_KEY": accounts.secret_key,
        "PALLAS_PUBLIC_URL": plan.url("workspaces"),
        "PALLAS_TEAMS_URL": plan.url("team-lifecycle"),
        "PALLAS_TEAMS_PASSWORD": accounts.service_password,
        "PALLAS_LIBRARY_URL": f"{plan.url('library-search')}/mcp",
        "PALLAS_LIBRARY_SERVER": "library-search",
        "PALLAS_OWN_REGISTRIES": plan.url("registry"),
    }


async def _library_search(plan: Plan, _: int) -> Mapping[str, str]:
    return {
        "PALLAS_POSTGRES_URL": await _database(plan, "library-search"),
        "PALLAS_ADMIN_PASSWORD_HASH": await _hash(plan, _accounts(plan).admin_password),
    }


async def _auth_resolver(plan: Plan, _: int) -> Mapping[str, str]:
    return {"PALLAS_FERNET_KEYS": _accounts(plan).fernet_keys, "PALLAS_REDIS_URL": plan.redis_url or ""}


async def _team_lifecycle(plan: Plan, _: int) -> Mapping[str, str]:
    accounts = _accounts(plan)
    return {
        "PALLAS_POSTGRES_URL": await _database(plan, "team-lifecycle"),
        "PALLAS_REDIS_URL": plan.redis_url or "",
        "PALLAS_SERVICE_PASSWORD_HASH": await _hash(plan, accounts.service_password),
        "PALLAS_ADMIN_PASSWORD_HASH": await _hash(plan, accounts.admin_password),
        "PALLAS_FERNET_KEYS": accounts.fernet_keys,
    }


def _has_auth(plan: Plan) -> bool:
    return plan.accounts is not None


def _accounts(plan: Plan) -> Accounts:
    assert plan.accounts is not None, "the auth services have accounts"
    return plan.accounts


async def _database(plan: Plan, service: str) -> str:
    """Create a service's database unless it exists, and return its address.

    On this stack's Postgres the service has its own role; elsewhere it uses the role of the configured address.
    """
    server, name = plan.postgres_url, service.replace("-", "_")
    assert server is not None, "the auth services need Postgres"
    password = kept_secret(plan.data, f"{service}-postgres-password") if plan.postgres is not None else None
    await ensure_database(server, name, password)
    return database_url(server, name, password)


async def _hash(plan: Plan, password: str) -> str:
    """The hash of a password.

    The salt follows from the secret key and the password. So the hash is another one only if the password is, which
    ends the sessions at the console.
    """
    return await asyncio.to_thread(_argon2, _accounts(plan).secret_key.encode(), password.encode())


_hashing = threading.Lock()
_hashes = dict[tuple[bytes, bytes], str]()


def _argon2(secret_key: bytes, password: bytes) -> str:
    """One hash takes 0.1 s, so the services of an account get the same one."""
    from argon2 import PasswordHasher

    with _hashing:
        if (secret_key, password) not in _hashes:
            salt = hmac.digest(secret_key, password, "sha256")[:16]
            _hashes[secret_key, password] = PasswordHasher().hash(password, salt=salt)
        return _hashes[secret_key, password]


def _kept_token(plan: Plan) -> dict[str, str]:
    return {"PALLAS_CODER_TOKEN": kept_secret(plan.data, "coder-token")}


async def _coder(plan: Plan, name: str, _: int) -> Launch:
    """The stand-in for Coder. It runs programs of this machine's user, so it gets no settings of Pallas."""
    folder, port, local = plan.data / "coder", plan.ports.of(name), plan.local or LocalFleet()
    for each in (folder, folder / "workspaces"):
        each.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    command = ("-P", "-m", "pallas_demo.coder", "--port", str(port))
    command += ("--state", str(folder / "state.json"), "--folder", str(folder / "workspaces"), "--resume")
    return Launch(
        command=(sys.executable, *command, *local.arguments),
        ready=accepts(LOOPBACK, port),
        env={**server_environment(), **local.passed, **_kept_token(plan), "PYTHONUNBUFFERED": "1"},
    )


async def _demo_tools(plan: Plan, name: str, _: int) -> Launch:
    port = plan.ports.of(name)
    return _demo_program(plan, accepts(LOOPBACK, port), "pallas_demo", "--port", str(port))


async def _demo_agents(plan: Plan, *_: object) -> Launch:
    """The demo's data agents, which are ready when a gateway knows the last one."""
    known = is_known(f"{plan.gateway_urls[0]}/teams/data/mcp/{_LAST_DEMO_AGENT}")
    return _demo_program(plan, known, "pallas_demo.data_agents", plan.url("data-pool"))


def _demo_program(plan: Plan, ready: Probe, *command: str) -> Launch:
    return Launch((sys.executable, "-P", "-m", *command), ready, env=service_environment() | _common(plan))


def _servers(plan: Plan) -> dict[str, EmbeddedNats | EmbeddedRedis | EmbeddedPostgres]:
    servers = {"nats-server": plan.nats, "redis-server": plan.redis, "postgres": plan.postgres}
    return {name: server for name, server in servers.items() if server is not None}


async def _server(plan: Plan, name: str, _: int) -> Launch:
    return await _servers(plan)[name].launch()


TABLE = (
    # Gateways stop first, so that no new turn arrives while the others drain.
    Row("agent-gateway", _service(_gateway), names=lambda plan: ["agent-gateway"] * len(plan.gateway_ports)),
    Row(
        "agent-worker",
        _service(_worker, inherited=team_environment),
        names=lambda plan: ["agent-worker"] * plan.options.workers,
    ),
    # At the broker it is an agent-worker. There is one for each folder with agents of fast-agent.
    Row(
        "fast-agent-worker",
        _service(_fast_agent_worker, inherited=team_environment, module="fast_agent_worker", user="agent-worker"),
        names=lambda plan: [f"fast-agent-worker-{team.name}" for team in plan.fast_agent],
    ),
    Row("registry", _service(_registry)),
    Row("pipelines", _service(_pipelines), _AGENTS),
    Row("data-pool", _service(_data_pool), _AGENTS),
    Row("fleet", _service(_fleet), _WATCHED),
    Row("health-monitor", _service(_health_monitor, inherited=team_environment), _AGENTS),
    Row("coder", _coder, _WATCHED, TOOLS, lambda plan: plan.external.coder is None),
    Row("demo-tools", _demo_tools, frozenset(), TOOLS, lambda plan: plan.demo),
    Row("demo-agents", _demo_agents, frozenset({"data-pool"}), TOOLS, lambda plan: plan.demo_agents),
    # Agents call library-search in their turns, so the auth services stop after the services of agents.
    Row("workspaces", _service(_console), _AUTH, TOOLS, _has_auth),
    Row("library-search", _service(_library_search), _AUTH, TOOLS, _has_auth),
    Row("auth-resolver", _service(_auth_resolver), _AUTH, TOOLS, _has_auth),
    Row("team-lifecycle", _service(_team_lifecycle), _AUTH, TOOLS, _has_auth),
    Row("nats-server", _server, frozenset(), SERVERS, lambda plan: "nats-server" in _servers(plan)),
    Row("redis-server", _server, _AGENTS - _BROKER, SERVERS, lambda plan: "redis-server" in _servers(plan)),
    Row("postgres", _server, _AGENTS - _BROKER, SERVERS, lambda plan: "postgres" in _servers(plan)),
)
