"""The dependencies of the handlers."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from workspaces.answers import HealthView, SettingsView
from workspaces.changes.make import Changes
from workspaces.hooks.now import Now
from workspaces.hooks.reconciler import Reconciler
from workspaces.mnemosyne.vault import Vault
from workspaces.registries.fetch import Fetcher
from workspaces.registries.refresh import Refresher

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
