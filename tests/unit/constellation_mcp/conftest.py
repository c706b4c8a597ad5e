"""A service, and the official client."""

import re
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from tests.unit.constellation_mcp.constellation import Constellation, a_constellation

from constellation_mcp.configuration import Configuration
from constellation_mcp.server import ConstellationServer
from constellation_mcp.service import connect

type Connecting = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture(scope="module")
async def listening_constellation() -> AsyncGenerator[Constellation]:
    """A service that listens."""
    async with a_constellation() as service:
        yield service


@pytest.fixture
def constellation(listening_constellation: Constellation) -> Generator[Constellation]:
    """The service, as if it were new. In the end every request must have had both headers."""
    listening_constellation.requests.clear()
    listening_constellation.answers.clear()
    yield listening_constellation
    for _, _, _, headers in listening_constellation.requests:
        assert re.fullmatch(r"[A-Za-z0-9._-]+:[A-Za-z0-9._@+-]+", headers["x-constellation-agent"])
        assert re.fullmatch(r"mcp-req-[0-9a-f]{12}", headers["x-constellation-request-id"])


@asynccontextmanager
async def connected(configuration: Configuration, **options: Any) -> AsyncGenerator[Client]:
    """A client of a server with this configuration, in one process."""
    async with connect(configuration) as service, Client(ConstellationServer(service).server, **options) as client:
        yield client
