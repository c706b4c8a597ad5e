"""For each test a resolver, its Redis, a stand-in for team-lifecycle, and a gateway that asks."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from tests.conftest import Connecting
from tests.embedded import RedisServer
from tests.integration.auth_resolver.lab import Replica, Truth, a_resolver, a_truth

from pallas_bus.connection import Bus


@pytest.fixture(scope="package")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[RedisServer]:
    """One Redis for tests that leave it running."""
    with RedisServer(Path(tmp_path_factory.mktemp("redis"))) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """The URL of an empty Redis."""
    redis_server.say("FLUSHALL")
    return redis_server.url


@pytest.fixture
async def truth(bus: Connecting) -> AsyncGenerator[Truth]:
    """The stand-in for team-lifecycle."""
    async with a_truth(await bus("team-lifecycle")) as truth:
        yield truth


@pytest.fixture
async def resolver(truth: Truth, nats_url: str, redis_url: str) -> AsyncGenerator[Replica]:
    """A running resolver."""
    assert truth.rows
    async with a_resolver(nats_url, redis_url) as resolver:
        yield resolver


@pytest.fixture
async def gateway(bus: Connecting) -> Bus:
    """The connection of a gateway, which asks."""
    return await bus("agent-gateway")
