"""Transactions that change a conversation or its messages.

Each one locks the conversation first. So they run one after the other, and the revisions of its messages are in the
order of commits: whoever has read one revision has missed no lower one.

What each message needs is one statement, which locks, changes and tells browsers: that is one message to Postgres
instead of five. While it waits for its lock, others may commit what it does not see. Postgres then tests the rows that
it locks or updates again, as they are by now, but nothing else. So all that it depends on must be in these rows.
Such statements are built once, since building one takes as long as Postgres does for it.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import CTE, ColumnElement, Select, Update, bindparam, case, exists, func, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from pallas_contracts.errors import NotFound
from workspaces.chat.views import RUNNING, conversation_json, conversation_topic, conversation_view
from workspaces.live.hub import ALL, Hub, Live, json_object, quoted
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

    Raises:
        NotFound: there is no such reply.
    """
    return await lock_message(session, message_id, ChatMessage.role == "assistant")


async def lock_message(
    session: AsyncSession, message_id: str, *conditions: ColumnElement[bool]
) -> tuple[Conversation, ChatMessage]:
    """Lock the conversation of a message that meets the conditions, and read both.

    The workspace is locked before it, as whoever deletes it does.

    Raises:
        NotFound: there is no such message.
    """
    of_message = (
        select(Conversation.id)
        .join(Workspace, Workspace.id == Conversation.workspace_id)
        .join(ChatMessage, ChatMessage.conversation_id == Conversation.id)
        .where(ChatMessage.id == message_id, *conditions)
        .with_for_update(of=Workspace, key_share=True, read=True)
    )
    conversation_id = await session.scalar(of_message)
    if conversation_id is None:
        raise unknown_message()
    conversation = await lock_conversation(session, conversation_id)
    message = await session.get(ChatMessage, message_id)
    if message is None:
        raise unknown_message()
    return conversation, message


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
    changed = changing(ChatMessage.id == reply_id, *conditions, **values).returning(ChatMessage)
    if answering is not None:
        rows = changed.cte("changed")
        told = telling(rows, answering=answering).add_columns(aliased(ChatMessage, rows))
        found = (await session.execute(told, execution_options=_NEWEST)).one_or_none()
        return found[-1] if found is not None else None
    reply = (await session.execute(changed, execution_options=_NEWEST)).scalar_one_or_none()
    if reply is not None:
        await Hub.tell_all_in(session, (message_told(reply),))
    return reply


def changing(*conditions: ColumnElement[bool], **values: Any) -> Update[ChatMessage]:
    """Change a message."""
    return update(ChatMessage).where(*conditions).values(**values, revision=REVISIONS.next_value())


def telling(reply: CTE, *, answering: bool, title: ColumnElement[str] | None = None) -> Select[None, None]:
    """Note in its conversation that a reply has changed, and tell browsers of both. No row: there is no such reply.

    `reply` has the columns `id`, `conversation_id` and `revision`. A conversation without a title gets `title`,
    numbered if there are others of it. Its `updated_at` grows with each change, as the clock is read behind the lock.
    """
    values: dict[str, Any] = {"updated_at": func.clock_timestamp()}
    if title is not None:
        values["title"] = func.coalesce(func.nullif(Conversation.title, ""), _numbered(title))
    there = Conversation.id.in_(select(reply.c.conversation_id))
    touched = update(Conversation).where(there).values(**values).returning(Conversation).cte("touched")
    topic = func.concat(quoted(conversation_topic("")), reply.c.conversation_id)
    message = json_object(id=reply.c.id, revision=reply.c.revision)
    conversation = conversation_json(touched, answering=answering)
    told = Hub.telling(topic, "message", message), Hub.telling(quoted(ALL), "conversation", conversation)
    return select(*told).select_from(reply.join(touched, true()))


def _numbered(title: ColumnElement[str]) -> ColumnElement[str]:
    """The title, with a number behind it if other conversations of the workspace have it already."""
    other = aliased(Conversation)
    same = or_(other.title == title, func.starts_with(other.title, title + quoted(" (")))
    there = select(func.count()).where(other.workspace_id == Conversation.workspace_id, same).scalar_subquery()
    return case((there > 0, func.concat(title, quoted(" ("), there + 1, quoted(")"))), else_=title)


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


def unknown_message() -> NotFound:
    """There is no such message."""
    return NotFound("there is no such message", code="unknown_message")
