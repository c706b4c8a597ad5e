"""Connects the parts of the chat."""

import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_runtime.process import Process
from workspaces.agents.start import Agents
from workspaces.answers import SettingsView
from workspaces.chat.choosing import Wellness
from workspaces.chat.concluding import Concluding
from workspaces.chat.conversations import Conversations
from workspaces.chat.deciding import Deciding, Repeats
from workspaces.chat.following import Following
from workspaces.chat.leases import Leases, watch_unowned
from workspaces.chat.reading import Reading
from workspaces.chat.replying import Replying
from workspaces.chat.runner import Runner
from workspaces.chat.sending import Sending
from workspaces.live.hub import Hub
from workspaces.metrics import Metrics


@dataclass(frozen=True)
class Chat:
    """Conversations with agents."""

    conversations: Conversations
    reading: Reading
    sending: Sending
    deciding: Deciding
    following: Following
    runner: Runner


@asynccontextmanager
async def open_chat(
    process: Process,
    engine: AsyncEngine,
    hub: Hub,
    metrics: Metrics,
    agents: Agents,
    defaults: SettingsView,
    repeats: Repeats,
) -> AsyncGenerator[Chat]:
    """The chat of this replica, whose replies run inside the block. `runner.stop` hands them over before it ends."""
    owner = f"{process.instance}-{uuid.uuid4().hex[:8]}"
    concluding = Concluding(engine, owner, hub)
    replying = Replying(engine, agents, concluding)
    runner = Runner(Leases(engine, owner), replying, concluding, hub, metrics)
    wellness, reading = Wellness(agents.health), Reading(engine)
    sending = Sending(engine, owner, wellness, defaults, runner.start, hub)
    deciding = Deciding(engine, owner, wellness, defaults, runner.start, runner.cancel, repeats)
    following = Following(reading, runner, hub)
    async with (
        process.running(runner.run(), "replies of agents"),
        process.running(watch_unowned(engine, metrics.unowned), "replies that nobody has"),
    ):
        yield Chat(Conversations(engine), reading, sending, deciding, following, runner)
