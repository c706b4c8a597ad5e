"""The dependencies of the handlers, and what runs beside them: hooks and the reconciler."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_runtime.process import Process
from workspaces.answers import HealthView, SettingsView
from workspaces.changes.make import Changes
from workspaces.hooks.due import Leases
from workspaces.hooks.now import Now
from workspaces.hooks.reconciler import Reconciler
from workspaces.hooks.runner import HookRunner
from workspaces.hooks.settle import Settler
from workspaces.live.hub import Hub
from workspaces.metrics import Metrics
from workspaces.mnemosyne.sealed_rows import check_sealed_rows
from workspaces.mnemosyne.teams import Teams, open_teams_client
from workspaces.mnemosyne.vault import Vault
from workspaces.registries.fetch import Fetcher, open_client
from workspaces.registries.policy import Policy
from workspaces.registries.refresh import Refresher
from workspaces.settings import WorkspacesSettings
from workspaces.stored_settings import default_settings

type HealthOf = Callable[[str, str], HealthView]
"""The cached health of an agent, by the ids of instance and server."""


@dataclass(frozen=True)
class Control:
    """What the routes of instances, workspaces, hooks and settings need.

    `library` is the name and the address of Mnemosyne's MCP server, as teams are told to use it. `has_sent` says
    whether this replica has sent a request with a correlation id to Mnemosyne.
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
    has_sent: Callable[[str], bool]


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
    """Run hooks and the reconciler until the block ends."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        policy = Policy(settings.registry_networks)
        registries = await enter(open_client(policy))
        mnemosyne = await enter(open_teams_client(settings.teams_password))
        teams, defaults = Teams(mnemosyne, settings.teams_url), default_settings(settings)
        fetcher = Fetcher(registries, policy, settings.origins)
        refresher = Refresher(engine, changes, fetcher)
        reconciler = Reconciler(engine, defaults, refresher, metrics)
        leases, settler = Leases(engine), Settler(teams, vault, engine)
        runner = HookRunner(engine, hub, leases, settler, metrics)
        await check_sealed_rows(engine, vault, accept_lost=settings.accept_lost_jwts)
        await enter(process.running(runner.run(), "hooks"))
        await enter(process.running(reconciler.run(), "reconciler"))
        now = Now(engine, changes, leases, settler)
        library = settings.library_server, settings.library_url
        yield Control(
            engine, changes, vault, fetcher, refresher, now, reconciler, health, defaults, library, teams.has_sent
        )
