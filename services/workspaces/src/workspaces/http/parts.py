"""The dependencies of the routes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version

from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_bus.transport.connection import Bus
from workspaces.access.login import Access
from workspaces.changes.make import Changes
from workspaces.handlers.parts import Control
from workspaces.live.hub import Hub
from workspaces.metrics import Metrics
from workspaces.settings import WorkspacesSettings


@dataclass(frozen=True)
class Parts:
    """Postgres for reading, `changes` for writing, `hub` for telling browsers. `instance` is the name of this replica.

    `broker()` is the connection to the broker, None as long as there was none. `stopping` is set when the process
    drains.
    """

    settings: WorkspacesSettings
    instance: str
    engine: AsyncEngine
    changes: Changes
    hub: Hub
    metrics: Metrics
    access: Access
    control: Control
    broker: Callable[[], Bus | None]
    version: str = field(default_factory=lambda: version("pallas-workspaces"))
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
