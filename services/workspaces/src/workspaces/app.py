"""Builds the service. Without the broker it works, but shows no turns, and its events wait in Postgres."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.types import ASGIApp

from pallas_bus.access import Access
from pallas_bus.connection import connect_when_possible
from pallas_contracts.catalog import WORKSPACES
from pallas_outbox.relay import Relay, watch_lag
from pallas_postgres.engine import open_engine, ping
from pallas_postgres.migrations import settle_restored
from pallas_runtime.process import Process
from pallas_runtime.run import Service
from workspaces.access.login import Logins
from workspaces.agents.start import open_agents
from workspaces.changes.make import OUTBOX, Changes
from workspaces.chat.concluding import end_restored_replies
from workspaces.chat.room import open_chat
from workspaces.handlers.control import open_control
from workspaces.http.parts import Parts
from workspaces.http.routing import make_http
from workspaces.live.hub import Hub
from workspaces.metrics import make_metrics
from workspaces.migrate import MIGRATIONS
from workspaces.mnemosyne.vault import Vault
from workspaces.reconciling.reconciler import TeamEvents
from workspaces.settings import WorkspacesSettings
from workspaces.turns.again import Again
from workspaces.turns.broker import Broker

IDLE_SECONDS = 4
"""After this time Postgres ends an idle transaction, so a replica that freezes within a change only delays others."""


@dataclass(frozen=True)
class Workspaces:
    """The running service."""

    http: ASGIApp
    parts: Parts

    async def drain(self) -> None:
        """Leave replies to other replicas and end the streams of events; the HTTP server finishes other requests."""
        self.parts.stopping.set()
        self.parts.hub.close()
        await self.parts.chat.replies.stop()


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
        await MIGRATIONS.prepare(engine, partial(_begin, engine, hub))
        changes = Changes(engine, metrics, committed)
        kept = settings.admin_password_hash
        access = Logins(engine, metrics, kept.get_secret_value() if kept else None)
        agents = await enter(open_agents(settings, process, vault, engine, hub, metrics))
        health = agents.health.of
        control = await enter(open_control(settings, process, vault, engine, changes, hub, metrics, health))
        broker = Broker()
        await enter(process.running(watch_lag(engine, OUTBOX, metrics.unsent, metrics.lag), "lag of events"))
        await enter(process.running(metrics.postgres.watch(engine), "figures of Postgres"))
        using = _use_broker(settings, process, engine, committed, broker)
        await enter(process.running(using, "events"))
        chat = await enter(open_chat(process, engine, hub, metrics, agents, control.defaults, Again(broker).repeats))
        parts = Parts(settings, engine, changes, hub, metrics, access, control, agents, chat, broker)
        yield Workspaces(make_http(parts), parts)


async def _begin(engine: AsyncEngine, hub: Hub) -> None:
    await settle_restored(engine, end_restored_replies)
    await hub.heard()


async def _use_broker(
    settings: WorkspacesSettings,
    process: Process,
    engine: AsyncEngine,
    committed: asyncio.Event,
    broker: Broker,
) -> None:
    """Relay events and hear of teams once the broker is there.

    The process is ready without it. It ends if the connection is closed for good, since it could not be made again.
    """
    connecting = connect_when_possible(Access.of(settings), WORKSPACES, instance=process.instance)
    async with connecting as bus, process.ends_when(bus.closed, "connection to the broker"):
        hearing = process.running(TeamEvents(engine).run(bus), "changes of teams")
        async with hearing:
            with broker.using(bus):
                await Relay(bus, engine, OUTBOX, committed, settings.stream_replicas).run()


SERVICE = Service("workspaces", WorkspacesSettings, build)
