"""The service, put together."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from auth_resolver.settings import AuthResolverSettings
from pallas_bus.connection import connect_when_possible
from pallas_contracts.catalog import RESOLVER
from pallas_runtime.run import BROKER, Process


@dataclass(frozen=True)
class AuthResolver:
    """The service at work."""

    http: None = None

    async def drain(self) -> None:
        """Nothing is under way."""


@asynccontextmanager
async def build(settings: AuthResolverSettings, process: Process) -> AsyncGenerator[AuthResolver]:
    """Connect."""
    url = settings.nats_url.get_secret_value()
    async with (
        connect_when_possible(url, RESOLVER, instance=process.instance) as bus,
        process.without(bus.closed, BROKER),
    ):
        process.probes.checks["broker"] = lambda: None if bus.connected else "not connected"
        yield AuthResolver()
