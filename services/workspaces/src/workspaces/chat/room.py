"""Connects the parts of the chat."""

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
from workspaces.chat.reading import Reading
from workspaces.chat.replies import Replies
from workspaces.chat.replying import Replying
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
    replies: Replies


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
    """The chat of this replica, whose replies run inside the block. `replies.stop` leaves them before it ends."""
    concluding = Concluding(engine, hub)
    replies = Replies(engine, Replying(engine, agents, concluding), concluding, hub, metrics)
    wellness, reading = Wellness(agents.health), Reading(engine)
    sending = Sending(engine, wellness, defaults, replies, hub)
    deciding = Deciding(engine, hub, wellness, defaults, replies, repeats)
    following = Following(reading, replies, hub)
    async with process.running(replies.run(), "replies of agents"):
        yield Chat(Conversations(engine), reading, sending, deciding, following, replies)
