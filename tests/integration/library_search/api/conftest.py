"""A service for each module, with its database and its broker. Each test gets it without libraries and documents."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
from tests.embedded import NatsServer
from tests.integration.library_search.lab import Search, StandIn, Truth, a_search, answering_for
from tests.postgres import PostgresServer

from pallas_bus.connection import connect
from pallas_contracts.catalog import LIFECYCLE, RESOLVER


@dataclass(frozen=True)
class Parts:
    """The service, and the stand-ins of team-lifecycle and of the resolver."""

    search: Search
    truth: Truth
    callers: StandIn


@pytest.fixture(scope="module")
async def parts(postgres: PostgresServer) -> AsyncGenerator[Parts]:
    """What runs, as the tests before have left it."""
    database = await postgres.new_database(like="library_model")
    with NatsServer() as nats:
        async with AsyncExitStack() as stack:
            truth = Truth(await stack.enter_async_context(connect(nats.url, LIFECYCLE)))
            await truth.declare()
            resolver = await stack.enter_async_context(connect(nats.url, RESOLVER))
            callers = await stack.enter_async_context(answering_for(resolver, StandIn()))
            environ = {"PALLAS_POSTGRES_URL": database, "PALLAS_NATS_URL": nats.url}
            yield Parts(await stack.enter_async_context(a_search(environ)), truth, callers)


@pytest.fixture
async def search(parts: Parts, postgres: PostgresServer) -> Search:
    """The service, emptied."""
    await parts.search.empty(postgres, parts.truth.number)
    return parts.search


@pytest.fixture
def truth(parts: Parts, search: Search) -> Truth:
    """A publisher of library changes."""
    return parts.truth


@pytest.fixture
def callers(parts: Parts) -> StandIn:
    """The stand-in for the resolver, which knows no callers and was asked nothing."""
    parts.callers.forget()
    return parts.callers
