"""Bearers at the gateway, with a real auth-resolver and team-lifecycle: a revocation applies to the next request."""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import httpx
import pytest
from tests.embedded import RedisServer
from tests.integration.agent_gateway.bearers import REQUESTS, client, header_of
from tests.integration.agent_gateway.conftest import Platform
from tests.integration.team_lifecycle.lab import FERNET_KEY, TEAMS, Lifecycle, a_lifecycle
from tests.postgres import PostgresServer
from tests.requirements import requirement
from tests.waiting import soon

from auth_resolver.app import build as build_resolver
from auth_resolver.settings import AuthResolverSettings
from pallas_postgres.engine import open_engine
from pallas_runtime.probes import Probes
from pallas_runtime.process import Process
from team_lifecycle.migrate import MIGRATIONS

CALL = REQUESTS["modern list"]


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> str:
    """A database with the tables of team-lifecycle."""

    async def make() -> str:
        url = await postgres.new_database()
        engine = open_engine(url, pool=1, service="tests")
        await MIGRATIONS.run(engine)
        await engine.dispose()
        return url

    return asyncio.run(make())


@pytest.fixture
async def lifecycle(
    alone: Platform, database: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Lifecycle]:
    """team-lifecycle and auth-resolver at work, on a broker of the test's own."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as redis:
        async with AsyncExitStack() as stack:
            urls = {"nats_url": alone.url, "redis_url": redis.url}
            lifecycle = await stack.enter_async_context(a_lifecycle(postgres_url=database, **urls))
            environ = {f"PALLAS_{name.upper()}": value for name, value in urls.items()}
            settings = AuthResolverSettings.from_env({**environ, "PALLAS_FERNET_KEYS": FERNET_KEY})
            process = Process("auth-resolver", f"resolver-{uuid.uuid4().hex[:8]}", 0, Probes())
            await stack.enter_async_context(build_resolver(settings, process))
            yield lifecycle


@requirement("A-7.4.2", "A-7.2.2")
async def test_a_jwt_calls_an_agent_until_it_is_rotated_and_its_team_deleted(
    alone: Platform, lifecycle: Lifecycle, http: httpx.AsyncClient
) -> None:
    await alone.worker()
    front = await alone.gateway("bench", gateway_auth="required")
    url = front.url(alone.team, "bench")
    team, first = await lifecycle.team()
    for era in ("auto", "legacy"):
        async with client(url, first, era) as caller:
            assert not (await soon(caller.call_tool("say", {}))).is_error
    claimed = await alone.claimed()
    assert claimed.principal is not None
    assert (claimed.principal.type, claimed.principal.id, claimed.principal.name) == ("team", team, "Kottos")
    rotated = await lifecycle.daedalus.post(f"{TEAMS}{team}/rotate/")
    assert rotated.status_code == 200, rotated.text
    second = rotated.json()["jwt"]
    old, new = await CALL.to(http, url, header_of(first)), await CALL.to(http, url, header_of(second))
    assert (old.status_code, old.json()["error"]["message"]) == (401, "Invalid MCP token.")
    assert new.status_code == 200
    assert (await lifecycle.daedalus.delete(f"{TEAMS}{team}/")).status_code == 204
    gone = await CALL.to(http, url, header_of(second))
    assert (gone.status_code, gone.json()["error"]["message"]) == (401, "Token has been deactivated.")
