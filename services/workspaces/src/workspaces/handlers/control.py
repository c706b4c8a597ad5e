"""The control plane: what its handlers need, how it is started, and its global settings."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_postgres.engine import reading
from pallas_runtime.process import Process
from workspaces.answers import HealthView, SettingsView
from workspaces.changes.make import Changes, Decision
from workspaces.live.hub import ALL, WORK, Hub
from workspaces.metrics import Metrics
from workspaces.mnemosyne.teams import Teams, open_teams_client
from workspaces.mnemosyne.vault import Vault, check_sealed_rows
from workspaces.model import Who
from workspaces.reconciling.claims import Claims
from workspaces.reconciling.now import Now
from workspaces.reconciling.reconciler import Reconciler
from workspaces.reconciling.sync import Syncer
from workspaces.registries.fetch import Fetcher, open_client
from workspaces.registries.policy import Policy
from workspaces.registries.refresh import Refresher
from workspaces.settings import WorkspacesSettings
from workspaces.stored_settings import default_settings, store_settings, stored_settings

type HealthOf = Callable[[str, str], HealthView]
"""The cached health of an agent, by the ids of instance and server."""


@dataclass(frozen=True)
class Control:
    """What the routes of instances, workspaces, deliveries and settings need.

    `library` is the name and the address of Mnemosyne's MCP server, as teams are told to use it.
    """

    engine: AsyncEngine
    changes: Changes
    vault: Vault
    fetcher: Fetcher
    refresher: Refresher
    now: Now
    reconciler: Reconciler
    health: HealthOf
    defaults: SettingsView
    library: tuple[str, str | None]


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


async def get_settings(control: Control) -> SettingsView:
    """The settings that hold now."""
    async with reading(control.engine) as session:
        return await stored_settings(session, control.defaults)


async def change_settings(control: Control, who: Who, changed: dict[str, Any]) -> SettingsView:
    """Change these settings. All replicas hear of it."""

    async def change(session: AsyncSession) -> Decision[SettingsView]:
        before = await stored_settings(session, control.defaults)
        await store_settings(session, changed)
        after = await stored_settings(session, control.defaults)
        if before != after:
            await Hub.tell_in(session, WORK, "settings", {})
            await Hub.tell_in(session, ALL, "settings", {})
        return Decision(after)

    return await control.changes.make(who, change)
