"""Transactions that change a conversation or its messages.

Each one locks the conversation first. So they run one after the other, and the revisions of its messages are in the
order of commits: whoever has read one revision has missed no lower one.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, exists, func, select, true, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased
from sqlalchemy.sql.dml import ReturningUpdate

from pallas_contracts.errors import NotFound
from workspaces.chat.views import RUNNING, conversation_topic, conversation_view
from workspaces.live.hub import ALL, Hub, Live
from workspaces.tables import REVISIONS, ChatMessage, Conversation, Workspace


_NEWEST = {"populate_existing": True, "synchronize_session": False}


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
    session: AsyncSession,
    reply_id: str,
    values: Mapping[str, Any],
    *conditions: ColumnElement[bool],
    answering: bool | None = None,
) -> ChatMessage | None:
    """Change a reply, whose conversation is locked, and tell browsers. None: the conditions do not hold.

    With `answering`, whether an agent is called from now on, the conversation has its latest change now.
    """
    changed = (
        update(ChatMessage)
        .where(ChatMessage.id == reply_id, *conditions)
        .values(**values, revision=REVISIONS.next_value())
        .returning(ChatMessage)
    )
    if answering is None:
        reply = (await session.execute(changed, execution_options=_NEWEST)).scalar_one_or_none()
        if reply is not None:
            await Hub.tell_all_in(session, (message_told(reply),))
        return reply
    rows = changed.cte("changed")
    touched = touching(Conversation.id.in_(select(rows.c.conversation_id))).cte("touched")
    both = select(aliased(ChatMessage, rows), aliased(Conversation, touched)).join(touched, true())
    found = (await session.execute(both, execution_options=_NEWEST)).one_or_none()
    if found is None:
        return None
    await Hub.tell_all_in(session, (message_told(found[0]), conversation_told(found[1], answering=answering)))
    return found[0]


async def is_answering(session: AsyncSession, conversation_id: str) -> bool:
    """Whether an agent is being called in a conversation."""
    running = exists().where(ChatMessage.conversation_id == conversation_id, ChatMessage.status.in_(RUNNING))
    return bool(await session.scalar(select(running)))


def touching(*conditions: ColumnElement[bool], title: str | None = None) -> ReturningUpdate[Conversation]:
    """Note that something has happened in a conversation, and give it a title if it has none."""
    values: dict[str, Any] = {"updated_at": func.now()}
    if title is not None:
        values["title"] = func.coalesce(func.nullif(Conversation.title, ""), title)
    return update(Conversation).where(*conditions).values(**values).returning(Conversation)


def message_told(message: ChatMessage) -> Live:
    """A message has changed."""
    return message_changed(message.conversation_id, message.id, message.revision)


def message_changed(conversation_id: str, message_id: str, revision: int) -> Live:
    """A message has changed, and has this revision now."""
    return Live(conversation_topic(conversation_id), "message", {"id": message_id, "revision": revision})


def conversation_told(conversation: Conversation, *, answering: bool) -> Live:
    """What a conversation is like now."""
    return Live(ALL, "conversation", conversation_view(conversation, answering=answering).model_dump(mode="json"))


def unknown_conversation() -> NotFound:
    """There is no such conversation."""
    return NotFound("there is no such conversation", code="unknown_conversation")


def unknown_reply() -> NotFound:
    """There is no such reply."""
    return NotFound("there is no such reply", code="unknown_message")
