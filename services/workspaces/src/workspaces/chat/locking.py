"""Transactions that change a conversation or its messages.

Each one locks the conversation first. So they run one after the other, and the revisions of its messages are in the
order of commits: whoever has read one revision has missed no lower one.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import ColumnElement, exists, func, select, update
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.errors import NotFound
from pallas_postgres.engine import postgres_errors
from workspaces.chat.views import RUNNING, conversation_topic, conversation_view
from workspaces.live.hub import ALL, Hub
from workspaces.tables import REVISIONS, ChatMessage, Conversation, Workspace


@asynccontextmanager
async def changing(engine: AsyncEngine) -> AsyncGenerator[AsyncSession]:
    """A transaction, committed at the end of the block.

    Raises:
        Unavailable: Postgres cannot be used right now.
    """
    async with postgres_errors(), AsyncSession(engine, expire_on_commit=False) as session:
        yield session
        await session.commit()


async def lock_conversation(session: AsyncSession, conversation_id: str) -> Conversation:
    """Lock a conversation until the end of the transaction.

    Raises:
        NotFound: there is none with this id.
    """
    locked = select(Conversation).where(Conversation.id == conversation_id).with_for_update(key_share=True)
    conversation = (await session.execute(locked)).scalar_one_or_none()
    if conversation is None:
        raise unknown_conversation()
    return conversation


async def lock_reply(session: AsyncSession, message_id: str) -> tuple[Conversation, ChatMessage]:
    """Lock the conversation of a reply, and read both.

    The workspace is locked before it, as whoever deletes it does.

    Raises:
        NotFound: there is no such reply.
    """
    of_reply = (
        select(Conversation.id)
        .join(Workspace, Workspace.id == Conversation.workspace_id)
        .join(ChatMessage, ChatMessage.conversation_id == Conversation.id)
        .where(ChatMessage.id == message_id, ChatMessage.role == "assistant")
        .with_for_update(of=Workspace, key_share=True, read=True)
    )
    conversation_id = await session.scalar(of_reply)
    if conversation_id is None:
        raise unknown_reply()
    conversation = await lock_conversation(session, conversation_id)
    reply = await session.get(ChatMessage, message_id)
    if reply is None:
        raise unknown_reply()
    return conversation, reply


async def change_reply(
    session: AsyncSession, reply_id: str, values: Mapping[str, Any], *conditions: ColumnElement[bool]
) -> ChatMessage | None:
    """Change a reply, whose conversation is locked, and tell browsers. None: the conditions do not hold."""
    changed = (
        update(ChatMessage)
        .where(ChatMessage.id == reply_id, *conditions)
        .values(**values, revision=REVISIONS.next_value())
        .returning(ChatMessage)
    )
    reply = (await session.execute(changed, execution_options={"populate_existing": True})).scalar_one_or_none()
    if reply is not None:
        await tell_message(session, reply)
    return reply


async def is_answering(session: AsyncSession, conversation_id: str) -> bool:
    """Whether an agent is being called in a conversation."""
    running = exists().where(ChatMessage.conversation_id == conversation_id, ChatMessage.status.in_(RUNNING))
    return bool(await session.scalar(select(running)))


async def tell_message(session: AsyncSession, message: ChatMessage) -> None:
    """Tell browsers that a message has changed."""
    data = {"id": message.id, "revision": message.revision}
    await Hub.tell_in(session, conversation_topic(message.conversation_id), "message", data)


async def touch_conversation(
    session: AsyncSession, conversation_id: str, *, answering: bool, title: str | None = None
) -> Conversation:
    """Note that something has happened in a conversation, give it a title if there is one, and tell browsers."""
    values = {"updated_at": func.now()} if title is None else {"updated_at": func.now(), "title": title}
    changed = update(Conversation).where(Conversation.id == conversation_id).values(**values).returning(Conversation)
    conversation = (await session.execute(changed, execution_options={"populate_existing": True})).scalar_one()
    await tell_conversation(session, conversation, answering=answering)
    return conversation


async def tell_conversation(session: AsyncSession, conversation: Conversation, *, answering: bool) -> None:
    """Tell browsers what a conversation is like."""
    view = conversation_view(conversation, answering=answering)
    await Hub.tell_in(session, ALL, "conversation", view.model_dump(mode="json"))


def unknown_conversation() -> NotFound:
    """There is no such conversation."""
    return NotFound("there is no such conversation", code="unknown_conversation")


def unknown_reply() -> NotFound:
    """There is no such reply."""
    return NotFound("there is no such reply", code="unknown_message")
