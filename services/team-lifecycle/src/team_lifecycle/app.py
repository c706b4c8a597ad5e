"""The service, put together."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pallas_bus.connection import connect_when_possible
from pallas_contracts.catalog import LIFECYCLE
from pallas_runtime.run import BROKER, Process
from team_lifecycle.settings import TeamLifecycleSettings


@dataclass(frozen=True)
class TeamLifecycle:
    """The service at work."""

    http: None = None

    async def drain(self) -> None:
        """Nothing is under way."""


@asynccontextmanager
async def build(settings: TeamLifecycleSettings, process: Process) -> AsyncGenerator[TeamLifecycle]:
    """Connect."""
    url = settings.nats_url.get_secret_value()
    async with (
        connect_when_possible(url, LIFECYCLE, instance=process.instance) as bus,
        process.without(bus.closed, BROKER),
    ):
        process.probes.checks["broker"] = lambda: None if bus.connected else "not connected"
        yield TeamLifecycle()
