"""A real redis-server, and caches over it."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest
from tests.embedded import RedisServer

from pallas_lookups.cache import LookupCache, open_cache


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Generator[RedisServer]:
    """One server for a module."""
    with RedisServer(Path(tmp_path_factory.mktemp("redis"))) as server:
        yield server


@pytest.fixture
async def cache(redis_server: RedisServer) -> AsyncGenerator[LookupCache]:
    """A cache over an empty Redis."""
    async with open_cache(redis_server.url) as opened:
        redis_server.say("FLUSHALL")
        yield opened
