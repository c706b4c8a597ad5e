"""Builds the registry: it reads three buckets of the broker and other registries, and serves one listing over HTTP."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import httpx2

from pallas_bus.access import Access
from pallas_bus.connection import connect
from pallas_bus.kv import watch
from pallas_contracts.catalog import AGENTS, GATEWAYS, HEALTH, REGISTRY
from pallas_contracts.message import utc_now
from pallas_runtime.process import Process
from pallas_runtime.run import Service, Simple
from registry.catalogue import Catalogue, Cell, ask_all, keep_asking
from registry.http import make_http
from registry.settings import RegistrySettings

TICK = 1.0


@asynccontextmanager
async def build(settings: RegistrySettings, process: Process) -> AsyncGenerator[Simple]:
    """Connect, and yield the registry once it knows the agents.

    Until then the process answers 503: with an empty list callers would believe that all agents are gone.
    """
    cells = [Cell(url) for url in settings.registry_also]
    catalogue = Catalogue(settings.public_url, cells)
    async with (
        connect(Access.of(settings), REGISTRY, instance=process.instance) as bus,
        process.uses(bus),
        watch(bus, AGENTS) as agents,
        watch(bus, HEALTH) as health,
        watch(bus, GATEWAYS) as gateways,
    ):
        process.probes.checks["tables"] = lambda: _unread(
            agents=agents.synced, health=health.synced, gateways=gateways.synced
        )
        agents.on_change(catalogue.agent_changed)
        health.on_change(catalogue.health_changed)
        gateways.on_change(catalogue.gateway_changed)
        process.vital(bus.spawn(_tick(catalogue)))
        await agents.synced.wait()
        async with _asking(cells, catalogue, process):
            yield Simple(make_http(catalogue.listing))


@asynccontextmanager
async def _asking(cells: Sequence[Cell], catalogue: Catalogue, process: Process) -> AsyncGenerator[None]:
    """Ask the registries of other cells inside the block, which begins when each was asked once."""
    if not cells:
        yield
        return
    process.probes.notes["other cells"] = catalogue.notes
    async with httpx2.AsyncClient(trust_env=False) as http:
        await ask_all(http, cells)
        async with process.running(keep_asking(http, cells, catalogue.cell_changed), "asking other registries"):
            yield


async def _tick(catalogue: Catalogue) -> None:
    while True:
        catalogue.tick(utc_now())
        await asyncio.sleep(TICK)


def _unread(**synced: asyncio.Event) -> str | None:
    missing = [name for name, event in synced.items() if not event.is_set()]
    return f"not read yet: {', '.join(missing)}" if missing else None


SERVICE = Service("registry", RegistrySettings, build)
