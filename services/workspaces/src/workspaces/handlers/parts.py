"""The dependencies of the handlers."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from workspaces.answers import HealthView, SettingsView
from workspaces.changes.make import Changes
from workspaces.mnemosyne.vault import Vault
from workspaces.reconciling.now import Now
from workspaces.reconciling.reconciler import Reconciler
from workspaces.registries.fetch import Fetcher
from workspaces.registries.refresh import Refresher

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
