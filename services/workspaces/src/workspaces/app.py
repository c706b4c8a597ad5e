"""Builds the service. Without the broker it works, but shows no turns, and its events wait in Postgres."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.types import ASGIApp

from pallas_bus.transport.access import Access
from pallas_bus.transport.connection import connect_when_possible
from pallas_contracts.catalog import WORKSPACES
from pallas_outbox.relay import Relay, watch_lag
from pallas_postgres.engine import open_engine, ping
from pallas_runtime.process import Process
from workspaces.access.login import Access as Logins
from workspaces.answers import HealthView
from workspaces.changes.make import OUTBOX, Changes
from workspaces.handlers.start import open_control
from workspaces.hooks.team_events import TeamEvents
from workspaces.http.parts import Parts
from workspaces.http.routing import make_http
from workspaces.live.hub import Hub
from workspaces.metrics import make_metrics
from workspaces.migrate import MIGRATIONS
from workspaces.mnemosyne.vault import Vault
from workspaces.settings import WorkspacesSettings
from workspaces.turns.broker import Broker

IDLE_SECONDS = 4
"""After this time Postgres ends an idle transaction, so a replica that freezes within a change only delays others."""


@dataclass(frozen=True)
class Workspaces:
    """The running service."""

    http: ASGIApp
    parts: Parts

    async def drain(self) -> None:
        """End the streams of events; the HTTP server finishes other requests."""
        self.parts.stopping.set()
        self.parts.hub.close()


@asynccontextmanager
async def build(settings: WorkspacesSettings, process: Process) -> AsyncGenerator[Workspaces]:
    """Migrate the tables, and serve.

    Raises:
        Rejected: there is no key for the secrets in the database, or it does not open them.
    """
    vault = Vault.of(settings)
    metrics, committed = make_metrics(process.probes.metrics), asyncio.Event()
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        url = settings.postgres_url.get_secret_value()
        idle = {"idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s"}
        engine = open_engine(url, pool=settings.postgres_pool, service="workspaces", options=idle)
        stack.push_async_callback(engine.dispose)
        await enter(process.needs(postgres=partial(ping, engine)))
        hub = Hub(url)
        metrics.listening.set_function(hub.listening.is_set)
        await enter(process.running(hub.run(), "what other replicas tell"))
        await MIGRATIONS.prepare(engine, hub.heard)
        changes = Changes(engine, metrics, committed)
        kept = settings.admin_password_hash
        access = Logins(engine, metrics, kept.get_secret_value() if kept else None)
        control = await enter(open_control(settings, process, vault, engine, changes, hub, metrics, _unknown))
        broker = Broker()
        await enter(process.running(watch_lag(engine, OUTBOX, metrics.unsent, metrics.lag), "lag of events"))
        await enter(process.running(_use_broker(settings, process, engine, committed, broker), "events"))
        parts = Parts(settings, process.instance, engine, changes, hub, metrics, access, control, broker)
        yield Workspaces(make_http(parts), parts)


def _unknown(_instance_id: str, _server_id: str) -> HealthView:
    return HealthView(status="unknown")


async def _use_broker(
    settings: WorkspacesSettings, process: Process, engine: AsyncEngine, committed: asyncio.Event, broker: Broker
) -> None:
    """Relay events and hear of teams once the broker is there. The process is ready without it, and ends if its
    connection is lost for good, since it could not be made again.
    """
    access = Access.of(settings)
    connecting = connect_when_possible(access, WORKSPACES, instance=process.instance)
    async with connecting as bus, process.ends_when(bus.closed, "connection to the broker"):
        with broker.using(bus):
            async with process.running(TeamEvents(engine).run(bus), "changes of teams"):
                await Relay(bus, engine, OUTBOX, committed, settings.stream_replicas).run()
