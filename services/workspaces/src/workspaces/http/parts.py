"""What routes share: their dependencies, the sender of a request, and paths."""

import asyncio
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Annotated

from fastapi import Depends, Request
from sqlalchemy.ext.asyncio import AsyncEngine

from workspaces.access.login import Logins
from workspaces.agents.start import Agents
from workspaces.changes.make import Changes
from workspaces.chat.room import Chat
from workspaces.handlers.control import Control
from workspaces.live.hub import Hub
from workspaces.metrics import Metrics
from workspaces.model import Who
from workspaces.settings import WorkspacesSettings
from workspaces.turns.broker import Broker


@dataclass(frozen=True)
class Parts:
    """Postgres for reading, `changes` for writing, `hub` for telling browsers.

    `broker` is the connection to the broker, which may be away. `stopping` is set when the process drains.
    """

    settings: WorkspacesSettings
    engine: AsyncEngine
    changes: Changes
    hub: Hub
    metrics: Metrics
    access: Logins
    control: Control
    agents: Agents
    chat: Chat
    broker: Broker
    version: str = field(default_factory=lambda: version("pallas-workspaces"))
    stopping: asyncio.Event = field(default_factory=asyncio.Event)


def sender_of(request: Request) -> Who:
    """The sender of the request."""
    who: Who = request.state.who
    return who


type Sender = Annotated[Who, Depends(sender_of)]


API = "/api/v1"
LOGIN, SESSION = f"{API}/login", f"{API}/session"
