"""One platform whose services are of two releases, side by side: all services of `pallas up`, as processes.

Both releases share this environment's packages of others; the sources of Pallas come first on the path of the older
one. Servers, broker's users and settings are those of this release, as an operator has them who has read the changelog.
"""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from tests.contract.tree import ROOT
from tests.e2e.stack import free_port_base
from tests.embedded import RedisServer, free_port
from tests.integration.real_parts import until
from tests.postgres import PostgresServer
from tests.upgrade import previous

from pallas_cli.processes.child import Launch
from pallas_cli.processes.supervisor import ProcessSpec
from pallas_cli.stack.plan import External, StackOptions, make_plan
from pallas_cli.stack.table import all_specs
from pallas_cli.team_folders import read_teams

OLD, NEW = "old", "new"
TEAM = Path(__file__).parent / "team"
DATA_AGENT = "gauge"
_SERVERS = ("nats-server", "coder")
_POOLS = 4
"""As many data-pools may be started, on ports that the data agent knows."""
_WITHIN = 120.0


@dataclass(frozen=True)
class Part:
    """A process of a service."""

    name: str
    release: str
    port: int
    log: Path

    @property
    def base(self) -> str:
        """The URL on which it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        path = self.log.with_suffix(".code")
        return int(path.read_text("ascii")) if path.exists() else None

    def send(self, number: signal.Signals) -> None:
        if self.code is None:
            os.kill(int(self.log.with_suffix(".pid").read_text("ascii")), number)

    async def ready(self, http: httpx.AsyncClient) -> None:
        """Wait until it can do its work."""

        async def look() -> bool:
            assert self.code is None, self.log.read_text("utf-8")
            with suppress(httpx.TransportError):
                return (await http.get(f"{self.base}/readyz")).is_success
            return False

        await until(look, _WITHIN)

    async def ended(self) -> int:
        """Wait for its end, and return its exit code."""

        async def look() -> bool:
            return self.code is not None

        await until(look, _WITHIN)
        return self.code or 0


@dataclass
class World:
    """`running` are the services by name, each with its processes in the order in which they were started.

    `servers` are the other processes of the platform by name, Redis apart.
    """

    folder: Path
    specs: dict[str, ProcessSpec]
    http: httpx.AsyncClient
    passwords: dict[str, str]
    pool_ports: list[int]
    nurseries: dict[str, asyncio.subprocess.Process]
    redis: RedisServer
    servers: dict[str, asyncio.subprocess.Process]
    running: dict[str, list[Part]] = field(default_factory=dict[str, list[Part]])
    _lives: int = 0

    @property
    def services(self) -> list[str]:
        """The services that both releases have."""
        return common(self.specs)

    def bases(self, name: str) -> list[str]:
        """The addresses of a service's processes."""
        return [part.base for part in self.running[name]]

    async def add(self, release: str, *names: str) -> None:
        """Start a process of each service, beside those that run, and wait until all are ready."""
        self._lives += 1
        started = [await self._start(name, release) for name in names]
        await asyncio.gather(*(part.ready(self.http) for part in started))

    async def leave(self, *names: str) -> None:
        """Let the process of each service that was started first drain and end, as in a rolling update."""
        leaving = [self.running[name].pop(0) for name in names]
        for part in leaving:
            part.send(signal.SIGTERM)
        ends = await asyncio.gather(*(part.ended() for part in leaving))
        wrong = [part for part, code in zip(leaving, ends, strict=True) if code]
        assert not wrong, "\n".join(part.log.read_text("utf-8")[-3000:] for part in wrong)

    async def _start(self, name: str, release: str) -> Part:
        launch = await self.specs[name].prepare()
        instance = f"{name}-{release}-{self._lives}"
        port = self.pool_ports.pop(0) if name == "data-pool" else free_port()
        own = {"PALLAS_PORT": str(port), "PALLAS_INSTANCE": instance, "PALLAS_AGENT_PORTS": "false"}
        part = Part(name, release, port, self.folder / f"{instance}.log")
        wanted = {"module": launch.command[-1], "env": {**launch.env, **own}, "log": str(part.log)}
        nursery = self.nurseries[release].stdin
        assert nursery is not None
        nursery.write(f"{json.dumps(wanted)}\n".encode())
        await nursery.drain()
        self.running.setdefault(name, []).append(part)
        return part

    def close(self) -> None:
        """Kill whatever runs."""
        for part in (part for parts in self.running.values() for part in parts):
            with suppress(OSError):
                part.send(signal.SIGKILL)


def common(specs: Iterable[str]) -> list[str]:
    """The services among `specs` that both releases have."""
    return [name for name in specs if name not in _SERVERS and (previous.sources() / "services" / name).exists()]


@asynccontextmanager
async def a_world(
    folder: Path, postgres: PostgresServer, releases: Sequence[str] = (OLD, NEW)
) -> AsyncGenerator[World]:
    """Servers and a data agent, and no service yet."""
    with RedisServer(folder / "redis") as redis:
        options = StackOptions(folder, teams=(TEAM,), port_base=free_port_base(), drain_seconds=2)
        external = External(redis=redis.url, postgres=postgres.url)
        plan = make_plan(options, external, folder, read_teams([TEAM], os.environ), demo=False, report=print)
        assert plan.accounts is not None
        specs = {spec.name: spec for spec in all_specs(plan)}
        ports = [free_port() for _ in range(_POOLS)]
        agent = (sys.executable, "-m", "tests.chaos.data_agent", str(free_port()), DATA_AGENT)
        agent += (str(folder / "measured"), *map(str, ports))
        async with AsyncExitStack() as stack:
            nurseries = {
                release: await stack.enter_async_context(_nursery(release, common(specs), folder))
                for release in releases
            }
            servers = {
                name: await stack.enter_async_context(_server(await specs[name].prepare(), folder / f"{name}.log"))
                for name in _SERVERS
            }
            await stack.enter_async_context(_server(Launch(agent, _always), folder / "data-agent.log"))
            http = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, verify=False, timeout=30))
            passwords = {"admin": plan.accounts.admin_password}
            world = World(folder, specs, http, passwords, ports, nurseries, redis, servers)
            stack.callback(world.close)
            yield world


@asynccontextmanager
async def _nursery(release: str, names: Iterable[str], folder: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    """What starts the services of a release. It imports while other things start."""
    env = dict(os.environ)
    if release == OLD:
        old = previous.sources()
        env["PYTHONPATH"] = os.pathsep.join(map(str, (*old.glob("*/*/src"), *old.glob("*/src"))))
    command = (sys.executable, "-m", "tests.upgrade.nursery", *(name.replace("-", "_") for name in names))
    with (folder / f"nursery-{release}.log").open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, env=env, stdin=PIPE, stdout=output, stderr=STDOUT
        )
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


async def _always() -> bool:
    return True


@asynccontextmanager
async def _server(launch: Launch, log: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *launch.command, env=launch.env, stdin=DEVNULL, stdout=output, stderr=STDOUT
        )
    try:
        await until(launch.ready, _WITHIN)
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
