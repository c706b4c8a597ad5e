"""The dependencies of the routes."""

import asyncio
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncEngine

from workspaces.changes.make import Changes
from workspaces.live.hub import Hub
from workspaces.metrics import Metrics
from workspaces.settings import WorkspacesSettings


@dataclass(frozen=True)
class Parts:
    """Postgres for reading, `changes` for writing, `hub` for telling browsers. `instance` is the name of this replica.

    `stopping` is set when the process drains.
    """

    settings: WorkspacesSettings
    instance: str
    engine: AsyncEngine
    changes: Changes
    hub: Hub
    metrics: Metrics
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
