"""The service, put together."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from library_search.settings import LibrarySearchSettings
from pallas_bus.connection import connect_when_possible
from pallas_contracts.catalog import SEARCH
from pallas_runtime.run import BROKER, Process


@dataclass(frozen=True)
class LibrarySearch:
    """The service at work."""

    http: None = None

    async def drain(self) -> None:
        """Nothing is under way."""


@asynccontextmanager
async def build(settings: LibrarySearchSettings, process: Process) -> AsyncGenerator[LibrarySearch]:
    """Connect."""
    url = settings.nats_url.get_secret_value()
    async with (
        connect_when_possible(url, SEARCH, instance=process.instance) as bus,
        process.without(bus.closed, BROKER),
    ):
        process.probes.checks["broker"] = lambda: None if bus.connected else "not connected"
        yield LibrarySearch()
