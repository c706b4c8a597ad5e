"""The statements that store a message and the reply to it: one reads the conversation, one stores both.

The second one stores nothing if the conversation has changed since it was read.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import ColumnElement, Row, bindparam, func, select, true
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.ext.asyncio import AsyncConnection

from pallas_contracts.errors import Conflict
from workspaces.chat.choosing import ATTACHED, Chosen
from workspaces.chat.conversations import title_of
from workspaces.chat.history import Plan
from workspaces.chat.locking import REPLY_TOLD, telling, unknown_conversation
from workspaces.chat.model import LEASE, NewMessage
from workspaces.chat.stored import newest
from workspaces.live.hub import quoted
from workspaces.stored_settings import STORED_SETTINGS
from workspaces.tables import Assignment, ChatMessage, Conversation, Image, Workspace


def _new(column: Any, name: str | None = None) -> ColumnElement[Any]:
    """A value that a message brings for a column."""
    return bindparam(f"new_{name or column.key}", type_=column.type)


_WITH_THIS_ID = select(ChatMessage.conversation_id).where(ChatMessage.id == bindparam("message"))
_AGENTS = ATTACHED.subquery("agents")
_FOUND = (
    select(
        Conversation.id.label("conversation"),
        Conversation.workspace_id.label("workspace"),
        Conversation.updated_at.label("seen"),
        _WITH_THIS_ID.scalar_subquery().label("stored"),
        STORED_SETTINGS.scalar_subquery().label("settings"),
        newest(_AGENTS.c.vision, _AGENTS).label("entries"),
        *_AGENTS.c,
    )
    .outerjoin(_AGENTS, _AGENTS.c.workspace_id == Conversation.workspace_id)
    .where(Conversation.id == bindparam("conversation"))
    .order_by(_AGENTS.c.name)
)
_ATTACHED = (
    select(Workspace.id)
    .join(Assignment, Assignment.workspace_id == Workspace.id)
    .where(Workspace.id == bindparam("workspace"), Assignment.pallas_instance_id == _new(ChatMessage.agent_instance_id))
    .with_for_update(of=(Workspace, Assignment), key_share=True, read=True)
    .cte("attached")
)
_UNCHANGED = (
    select(Conversation.id)
    .join(_ATTACHED, _ATTACHED.c.id == Conversation.workspace_id)
    .where(Conversation.id == bindparam("conversation"), Conversation.updated_at == bindparam("seen"))
    .with_for_update(of=Conversation, key_share=True)
    .cte("unchanged")
)
_ASKED = (
    insert(ChatMessage)
    .from_select(
        ("conversation_id", "role", "status", "id", "seq", "content"),
        select(
            _UNCHANGED.c.id,
            quoted("user"),
            quoted("answered"),
            _new(ChatMessage.id, "message"),
            _new(ChatMessage.seq) - 1,
            _new(ChatMessage.content),
        ),
    )
    .on_conflict_do_nothing(index_elements=[ChatMessage.id])
    .returning(ChatMessage.id, ChatMessage.conversation_id)
    .cte("asked")
)
_OF_REPLY = (
    "id", "seq", "status", "agent_instance_id", "agent_server_id", "agent_title", "key", "attempt", "remembers_from",
    "images_from", "owner",
)  # fmt: skip
_REPLY = (
    insert(ChatMessage)
    .from_select(
        ("conversation_id", "role", "leased_until", *_OF_REPLY),
        select(
            _ASKED.c.conversation_id,
            quoted("assistant"),
            func.now() + LEASE,
            *(_new(ChatMessage.__table__.c[name]) for name in _OF_REPLY),
        ),
    )
    .returning(*REPLY_TOLD)
    .cte("reply")
)
_NEW = telling(_REPLY, answering=True, title=bindparam("title"))
_OF_PICTURE = Image.id, Image.mime_type, Image.data
_PICTURES = (
    func.unnest(*(bindparam(f"picture_{column.key}", type_=ARRAY(column.type)) for column in _OF_PICTURE))
    .table_valued(*(column.key for column in _OF_PICTURE), with_ordinality="number")
    .render_derived(name="given")
)
_STORE_PICTURES = insert(Image).from_select(
    ("message_id", "id", "mime_type", "data", "position"),
    select(_ASKED.c.id, _PICTURES.c.id, _PICTURES.c.mime_type, _PICTURES.c.data, _PICTURES.c.number - 1).select_from(
        _ASKED.join(_PICTURES, true())
    ),
)
_NEW_WITH_PICTURES = _NEW.add_cte(_STORE_PICTURES.cte("pictures"))
"""Statements that store a message. They select no row if it is stored already, or something has changed."""


async def find_conversation(
    connection: AsyncConnection, conversation_id: str, message: NewMessage
) -> Sequence[Row[*tuple[Any, ...]]] | None:
    """The conversation, once for each agent that the sender may mean; None: the message is stored already.

    Raises:
        NotFound: there is no such conversation.
        Conflict: another conversation has a message with this id (`id_taken`).
    """
    wanted = {"server": message.wanted.server_id, "instance": message.wanted.instance_id}
    named = {"message": message.id, "conversation": conversation_id}
    found = (await connection.execute(_FOUND, {**named, **wanted})).all()
    if not found:
        raise unknown_conversation()
    if found[0].stored is None:
        return found
    if found[0].stored != conversation_id:
        raise Conflict("id: a message of another conversation has this id", code="id_taken", field="id")
    return None


async def store_message(
    connection: AsyncConnection, found: Row[*tuple[Any, ...]], message: NewMessage, reply: Mapping[str, Any]
) -> bool:
    """Store a message, and its reply with these values. False: the conversation has changed since it was found."""
    there = {"workspace": found.workspace, "conversation": found.conversation, "seen": found.seen}
    asked = {"new_message": message.id, "new_content": message.text, "title": title_of(message.text)}
    row = {f"new_{name}": reply[name] for name in _OF_REPLY}
    statement, pictures = (_NEW_WITH_PICTURES, _pictures(message)) if message.pictures else (_NEW, {})
    return (await connection.execute(statement, {**there, **asked, **row, **pictures})).one_or_none() is not None


def _pictures(message: NewMessage) -> dict[str, Any]:
    return {
        "picture_id": [str(uuid5(UUID(message.id), f"image {place}")) for place in range(len(message.pictures))],
        "picture_mime_type": [picture.mime_type for picture in message.pictures],
        "picture_data": [picture.data for picture in message.pictures],
    }


def begun(owner: str, chosen: Chosen, key: str, attempt: int, plan: Plan) -> dict[str, Any]:
    """The values of a reply that an agent is called for from now on."""
    return {
        "status": "sending",
        "agent_instance_id": chosen.instance_id,
        "agent_server_id": chosen.server_id,
        "agent_title": chosen.title,
        "key": key,
        "attempt": attempt,
        "remembers_from": plan.first,
        "images_from": plan.images,
        "owner": owner,
        "leased_until": func.now() + LEASE,
    }
