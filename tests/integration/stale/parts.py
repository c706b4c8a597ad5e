"""The processes of a storm: two of each service, Postgres, Redis and the broker."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
from tests.embedded import NatsServer, RedisServer, free_port
from tests.integration.real_parts import until
from tests.integration.team_lifecycle.lab import ADMIN_PASSWORD, SERVICE_PASSWORD, TEAMS, environment
from tests.postgres import PostgresServer

from pallas_bus.connection import Bus, connect

_STARTS_WITHIN = 60.0

type Accidents = list[tuple[str, Callable[[], Awaitable[None]]]]


class Service:
    """A process of one of the services, which keeps its port."""

    def __init__(self, name: str, environ: dict[str, str], folder: Path, *, protected: bool) -> None:
        self.name = name
        self.base = f"http://127.0.0.1:{(port := free_port())}"
        self._environ = {**os.environ, **environ, "PALLAS_PORT": str(port), "PALLAS_LOG_LEVEL": "WARNING"}
        module = name.replace("-", "_")
        self._module = [module] if protected else ["tests.integration.stale.service", name]
        self._log = folder / f"{name}-{port}.log"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it is ready."""
        with self._log.open("ab") as output:
            command = [sys.executable, "-m", *self._module]
            self._process = await asyncio.create_subprocess_exec(
                *command, env=self._environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        async with httpx.AsyncClient(base_url=self.base, trust_env=False, verify=False) as client:

            async def ready() -> bool:
                with suppress(httpx.TransportError):
                    return (await client.get("/readyz")).status_code == 200
                return False

            await until(ready, within=_STARTS_WITHIN)

    async def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()


@dataclass(frozen=True)
class Parts:
    """What runs. `accidents` kill something and bring it back."""

    lifecycles: list[Service]
    resolvers: list[Service]
    redis: RedisServer
    postgres: PostgresServer
    gateway: Bus
    client: httpx.AsyncClient

    async def call(self, dice: random.Random, method: str, path: str, body: object = None) -> httpx.Response:
        """Call the API of some replica until one of them answers for certain."""
        while True:
            base = dice.choice(self.lifecycles).base
            name, password = ("daedalus-service", SERVICE_PASSWORD) if path.startswith(TEAMS) else _ADMIN
            with suppress(httpx.TransportError):
                answer = await self.client.request(method, base + path, json=body, auth=(name, password))
                if answer.status_code != 503:
                    assert answer.is_success or answer.status_code == 404, answer.text
                    return answer
            await asyncio.sleep(0.02)

    def accidents(self, dice: random.Random) -> list[Accidents]:
        """Two rows of accidents that happen beside each other. Of each service one replica is always there."""

        async def services(number: int) -> None:
            victims = self.lifecycles[number], self.resolvers[number]
            await asyncio.gather(*(victim.kill() for victim in victims))
            await asyncio.gather(*(victim.start() for victim in victims))

        async def server(victim: RedisServer | PostgresServer) -> None:
            await asyncio.to_thread(victim.kill9)
            await asyncio.sleep(dice.uniform(0, 0.3))
            await asyncio.to_thread(victim.start)

        redis = ("redis", lambda: server(self.redis))
        servers: Accidents = [redis, redis, redis, ("postgres", lambda: server(self.postgres))]
        processes: Accidents = [(f"replicas {number}", partial(services, number)) for number in range(2)]
        return [dice.sample(servers, len(servers)), dice.sample(processes, len(processes))]


_ADMIN = ("admin", ADMIN_PASSWORD)


@asynccontextmanager
async def parts(folder: Path, *, protected: bool = True) -> AsyncGenerator[Parts]:
    """Start everything."""
    async with AsyncExitStack() as stack:
        nats = stack.enter_context(NatsServer())
        redis = stack.enter_context(RedisServer(folder / "redis"))
        postgres = PostgresServer(folder / "postgres")
        await asyncio.to_thread(postgres.start)
        stack.callback(postgres.stop)
        environ = environment(nats_url=nats.url, redis_url=redis.url, postgres_url=postgres.url)
        names = ["team-lifecycle", "team-lifecycle", "auth-resolver", "auth-resolver"]
        services = [Service(name, environ, folder, protected=protected) for name in names]
        for service in services:
            stack.push_async_callback(service.kill)
        await services[0].start()  # it makes the tables
        await asyncio.gather(*(service.start() for service in services[1:]))
        gateway = await stack.enter_async_context(connect(nats.url, "agent-gateway"))
        client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, verify=False, timeout=15))
        yield Parts(services[:2], services[2:], redis, postgres, gateway, client)
