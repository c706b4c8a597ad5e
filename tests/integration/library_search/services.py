"""library-search with a real team-lifecycle and a real resolver."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.embedded import NatsServer, RedisServer
from tests.integration.library_search.lab import Search, a_search
from tests.integration.team_lifecycle.lab import CONTENT, FERNET_KEY, Lifecycle, a_lifecycle
from tests.postgres import PostgresServer

from auth_resolver.app import build
from auth_resolver.settings import AuthResolverSettings
from pallas_runtime.probes import Probes
from pallas_runtime.process import Process


@dataclass(frozen=True)
class Services:
    """team-lifecycle and library-search, with a resolver between them."""

    lifecycle: Lifecycle
    search: Search

    async def empty(self, server: PostgresServer) -> None:
        """Delete all teams, users, libraries, tokens and documents."""
        database = self.lifecycle.settings["postgres_url"]
        [(last,)] = await server.say("select coalesce(max(number), 0) from changes where kind = 'library'", database)
        await self.search.empty(server, last)
        await server.empty(database, *CONTENT)


@asynccontextmanager
async def running_services(server: PostgresServer, folder: Path) -> AsyncGenerator[Services]:
    """Run the services on a broker, databases and a Redis (in `folder`) of their own."""
    async with AsyncExitStack() as stack:
        nats = stack.enter_context(NatsServer())
        redis = stack.enter_context(RedisServer(folder))
        own, other = await server.new_database(), await server.new_database(like="library_model")
        lifecycle = a_lifecycle(postgres_url=own, redis_url=redis.url, nats_url=nats.url)
        running = await stack.enter_async_context(lifecycle)
        await stack.enter_async_context(a_resolver(nats.url, redis.url))
        environ = {"PALLAS_POSTGRES_URL": other, "PALLAS_NATS_URL": nats.url}
        yield Services(running, await stack.enter_async_context(a_search(environ)))


@asynccontextmanager
async def a_resolver(nats_url: str, redis_url: str) -> AsyncGenerator[None]:
    """Run a real resolver."""
    given = {"PALLAS_NATS_URL": nats_url, "PALLAS_REDIS_URL": redis_url, "PALLAS_FERNET_KEYS": FERNET_KEY}
    process = Process("auth-resolver", f"resolver-{uuid.uuid4().hex[:8]}", 0, Probes())
    async with build(AuthResolverSettings.from_env(given), process):
        yield
