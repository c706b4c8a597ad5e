"""Transactions that change a conversation or its messages.

Each one locks the conversation first. So they run one after the other, and the revisions of its messages are in the
order of commits: whoever has read one revision has missed no lower one.

Statements that each message needs are built once: building one takes as long as Postgres does for it.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, exists, func, select, true, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased
from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate

from pallas_contracts.errors import NotFound
from workspaces.chat.views import RUNNING, conversation_topic, conversation_view
from workspaces.live.hub import ALL, Hub, Live
from workspaces.tables import REVISIONS, ChatMessage, Conversation, Workspace

_NEWEST = {"populate_existing": True, "synchronize_session": False}
_LOCKED = select(Conversation).where(Conversation.id == bindparam("conversation")).with_for_update(key_share=True)


async def lock_conversation(session: AsyncSession, conversation_id: str) -> Conversation:
    """Lock a conversation until the end of the transaction.

    Raises:
        NotFound: there is none with this id.
    """
    conversation = (await session.execute(_LOCKED, {"conversation": conversation_id})).scalar_one_or_none()
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
    changed = changing(ChatMessage.id == reply_id, *conditions, **values)
    if answering is not None:
        found = (await session.execute(with_touched(changed), execution_options=_NEWEST)).one_or_none()
        return await tell_both(session, *found, answering=answering) if found is not None else None
    reply = (await session.execute(changed, execution_options=_NEWEST)).scalar_one_or_none()
    if reply is not None:
        await Hub.tell_all_in(session, (message_told(reply),))
    return reply


def changing(*conditions: ColumnElement[bool], **values: Any) -> ReturningUpdate[ChatMessage]:
    """Change a message."""
    changed = update(ChatMessage).where(*conditions).values(**values, revision=REVISIONS.next_value())
    return changed.returning(ChatMessage)


def with_touched(
    changed: ReturningUpdate[ChatMessage] | ReturningInsert[ChatMessage], title: Any = None
) -> Select[ChatMessage, Conversation]:
    """Change a message, and note that something has happened in its conversation, which gets a title if it has none."""
    rows = changed.cte("changed")
    values: dict[str, Any] = {"updated_at": func.now()}
    if title is not None:
        values["title"] = func.coalesce(func.nullif(Conversation.title, ""), title)
    there = Conversation.id.in_(select(rows.c.conversation_id))
    touched = update(Conversation).where(there).values(**values).returning(Conversation).cte("touched")
    found = select(aliased(ChatMessage, rows), aliased(Conversation, touched)).join(touched, true())
    return found.execution_options(populate_existing=True)


async def tell_both(
    session: AsyncSession, message: ChatMessage, conversation: Conversation, *, answering: bool
) -> ChatMessage:
    """Tell browsers what both are like now."""
    await Hub.tell_all_in(session, (message_told(message), conversation_told(conversation, answering=answering)))
    return message


async def is_answering(session: AsyncSession, conversation_id: str) -> bool:
    """Whether an agent is being called in a conversation."""
    running = exists().where(ChatMessage.conversation_id == conversation_id, ChatMessage.status.in_(RUNNING))
    return bool(await session.scalar(select(running)))


def message_told(message: ChatMessage) -> Live:
    """A message has changed."""
    data = {"id": message.id, "revision": message.revision}
    return Live(conversation_topic(message.conversation_id), "message", data)


def conversation_told(conversation: Conversation, *, answering: bool) -> Live:
    """What a conversation is like now."""
    return Live(ALL, "conversation", conversation_view(conversation, answering=answering).model_dump(mode="json"))


def unknown_conversation() -> NotFound:
    """There is no such conversation."""
    return NotFound("there is no such conversation", code="unknown_conversation")


def unknown_reply() -> NotFound:
    """There is no such reply."""
    return NotFound("there is no such reply", code="unknown_message")
