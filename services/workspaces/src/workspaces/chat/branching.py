"""Branches: a conversation that begins with a copy of another one's messages, up to one that is asked otherwise.

A copy is an ended conversation like any other, so nothing else of the chat knows of branches.
"""

from dataclasses import dataclass, field

from sqlalchemy import func, insert, literal, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from workspaces.chat.conversations import make_conversation
from workspaces.chat.images import Picture
from workspaces.chat.locking import lock_message
from workspaces.tables import ChatMessage, Image

_COPIED = (
    "seq", "role", "content", "status", "created_at", "ended_at", "agent_instance_id", "agent_server_id", "agent_title",
    "error_code", "error", "turn_id", "remembers_from", "images_from",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """What a person asked."""

    text: str
    pictures: tuple[Picture, ...] = field(repr=False)


async def begin_branch(session: AsyncSession, message_id: str, new_id: str) -> Asked:
    """Make the branch `new_id` at a message, or at that which a reply answers, unless there is one already.

    Raises:
        NotFound: there is no such message.
        Conflict: a conversation of another workspace has this id.
    """
    source, found = await lock_message(session, message_id)
    seq = found.seq if found.role == "user" else found.seq - 1
    here = ChatMessage.conversation_id == source.id
    message = (await session.scalars(select(ChatMessage).where(here, ChatMessage.seq == seq))).one()
    images = select(Image.mime_type, Image.data).where(Image.message_id == message.id).order_by(Image.position)
    pictures = tuple(Picture(mime_type, data) for mime_type, data in await session.execute(images))
    branch, is_new = await make_conversation(session, source.workspace_id, new_id, source.title)
    if is_new:
        source.root_id = source.root_id or source.id
        branch.root_id, branch.branch_of, branch.branch_seq = source.root_id, source.id, seq
        await session.flush()
        await _copy(session, source.id, new_id, seq)
    return Asked(message.content, pictures)


async def _copy(session: AsyncSession, source: str, target: str, before: int) -> None:
    """Copy the messages before one, with their images."""
    columns = ChatMessage.__table__.c
    rows = select(
        func.gen_random_uuid(), literal(target, ChatMessage.conversation_id.type), *(columns[name] for name in _COPIED)
    )
    rows = rows.where(ChatMessage.conversation_id == source, ChatMessage.seq < before)
    await session.execute(insert(ChatMessage).from_select(("id", "conversation_id", *_COPIED), rows))
    old, new = aliased(ChatMessage), aliased(ChatMessage)
    images = (
        select(func.gen_random_uuid(), new.id, Image.position, Image.mime_type, Image.data)
        .join(old, old.id == Image.message_id)
        .join(new, (new.seq == old.seq) & (new.conversation_id == target))
        .where(old.conversation_id == source, old.seq < before)
    )
    into = ("id", "message_id", "position", "mime_type", "data")
    await session.execute(insert(Image).from_select(into, images))
