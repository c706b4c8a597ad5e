"""Starts what speaks with registries and with Mnemosyne."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_runtime.process import Process
from workspaces.changes.make import Changes
from workspaces.handlers.parts import Control, HealthOf
from workspaces.live.hub import Hub
from workspaces.metrics import Metrics
from workspaces.mnemosyne.sealed_rows import check_sealed_rows
from workspaces.mnemosyne.teams import Teams, open_teams_client
from workspaces.mnemosyne.vault import Vault
from workspaces.reconciling.claims import Claims
from workspaces.reconciling.now import Now
from workspaces.reconciling.reconciler import Reconciler
from workspaces.reconciling.sync import Syncer
from workspaces.registries.fetch import Fetcher, open_client
from workspaces.registries.policy import Policy
from workspaces.registries.refresh import Refresher
from workspaces.settings import WorkspacesSettings
from workspaces.stored_settings import default_settings


@asynccontextmanager
async def open_control(
    settings: WorkspacesSettings,
    process: Process,
    vault: Vault,
    engine: AsyncEngine,
    changes: Changes,
    hub: Hub,
    metrics: Metrics,
    health: HealthOf,
) -> AsyncGenerator[Control]:
    """Run the reconciler until the block ends."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        policy = Policy(settings.registry_networks)
        registries = await enter(open_client(policy))
        mnemosyne = await enter(open_teams_client(settings.teams_password))
        teams, defaults = Teams(mnemosyne, settings.teams_url), default_settings(settings)
        fetcher = Fetcher(registries, policy, settings.origins)
        refresher = Refresher(engine, changes, fetcher)
        claims = Claims(engine)
        syncer = Syncer(teams, vault, claims)
        reconciler = Reconciler(engine, hub, claims, syncer, refresher, defaults, metrics)
        await check_sealed_rows(engine, vault, accept_lost=settings.accept_lost_jwts)
        await enter(process.running(reconciler.run(), "reconciler"))
        now = Now(engine, changes, claims, syncer)
        library = settings.library_server, settings.library_url
        yield Control(engine, changes, vault, fetcher, refresher, now, reconciler, health, defaults, library)
