"""One broker for the tests of its rights, with the streams declared by their owners."""

import asyncio
from collections.abc import Generator

import pytest
from tests.integration.broker.guarded import Guarded, start

from pallas_bus.connection import connect
from pallas_bus.streams import declare
from pallas_contracts.catalog import BUCKETS, STREAMS


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Generator[Guarded]:
    """The broker."""
    guarded = start(tmp_path_factory.mktemp("guarded"))
    yield guarded
    guarded.server.close()


@pytest.fixture(scope="session")
def declared(guarded: Guarded) -> Guarded:
    """The broker, with all streams and buckets declared by their owners.

    The fixture is not async: an async one of the session would keep one event loop for all later tests of the process,
    with whatever tasks they leave in it.
    """
    asyncio.run(_declare(guarded))
    return guarded


async def _declare(guarded: Guarded) -> None:
    for owner in sorted({thing.owner for thing in (*STREAMS, *BUCKETS)}):
        async with connect(guarded.access(owner), owner) as bus:
            await declare(bus, *(thing for thing in (*STREAMS, *BUCKETS) if thing.owner == owner))
