"""The statements that store a message and the reply to it: one reads the conversation, one stores both.

The second one stores nothing if the conversation has changed since it was read.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import ColumnElement, Row, bindparam, func, select, true
from sqlalchemy.dialects.postgresql import ARRAY, insert

from pallas_contracts.errors import Conflict
from pallas_postgres.engine import Prepared, Rows
from workspaces.answers import MessageView
from workspaces.chat.choosing import ATTACHED, Chosen
from workspaces.chat.conversations import title_of
from workspaces.chat.history import Plan
from workspaces.chat.locking import telling, unknown_conversation
from workspaces.chat.model import NewMessage
from workspaces.chat.reading import Changed
from workspaces.chat.stored import LINES, newest
from workspaces.chat.views import message_view
from workspaces.live.hub import quoted
from workspaces.stored_settings import STORED_SETTINGS
from workspaces.tables import Assignment, ChatMessage, Conversation, Image, Workspace


def _new(column: Any, name: str | None = None) -> ColumnElement[Any]:
    """A value that a message brings for a column."""
    return bindparam(f"new_{name or column.key}", type_=column.type)


_NEWEST = select(func.coalesce(func.max(ChatMessage.revision), 0)).where(
    ChatMessage.conversation_id == bindparam("conversation")
)
_WITH_THIS_ID = select(ChatMessage.conversation_id).where(ChatMessage.id == bindparam("message"))
_AGENTS = ATTACHED.subquery("agents")
_FOUND = Prepared(
    select(
        Conversation.id.label("conversation"),
        Conversation.workspace_id.label("workspace"),
        Conversation.updated_at.label("seen"),
        _WITH_THIS_ID.scalar_subquery().label("stored"),
        STORED_SETTINGS.scalar_subquery().label("settings"),
        newest(_AGENTS.c.vision, _AGENTS).label("entries"),
        _NEWEST.scalar_subquery().label("newest"),
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
    .returning(ChatMessage.id, ChatMessage.conversation_id, ChatMessage.revision, ChatMessage.created_at)
    .cte("asked")
)
_OF_REPLY = (
    "id", "seq", "status", "agent_instance_id", "agent_server_id", "agent_title", "key", "attempt", "remembers_from",
    "images_from", "owner",
)  # fmt: skip
_REPLY = (
    insert(ChatMessage)
    .from_select(
        ("conversation_id", "role", *_OF_REPLY),
        select(
            _ASKED.c.conversation_id,
            quoted("assistant"),
            *(_new(ChatMessage.__table__.c[name]) for name in _OF_REPLY),
        ),
    )
    .returning(*ChatMessage.__table__.c)
    .cte("reply")
)
_STORED = telling(_REPLY, answering=True, title=bindparam("title", type_=Conversation.title.type)).add_columns(
    *_REPLY.c,
    LINES.label("lines"),
    *(select(column).scalar_subquery().label(f"asked_{column.key}") for column in _ASKED.c),
)
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
_NEW, _NEW_WITH_PICTURES = Prepared(_STORED), Prepared(_STORED.add_cte(_STORE_PICTURES.cte("pictures")))
"""Statements that store a message. They select no row if it is stored already, or something has changed."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What was stored, and what `LINES` has found before it."""

    changed: Changed
    lines: list[Any] | None


type Fetch = Callable[[Prepared, Mapping[str, Any]], Awaitable[Rows]]
"""Executes a statement, as a transaction of its own or inside of one, and returns its rows."""


async def find_conversation(run: Fetch, conversation_id: str, message: NewMessage) -> Rows | None:
    """The conversation, once for each agent that the sender may mean; None: the message is stored already.

    Raises:
        NotFound: there is no such conversation.
        Conflict: another conversation has a message with this id (`id_taken`).
    """
    wanted = {"server": message.wanted.server_id, "instance": message.wanted.instance_id}
    named = {"message": message.id, "conversation": conversation_id}
    found = await run(_FOUND, {**named, **wanted})
    if not found:
        raise unknown_conversation()
    if found[0].stored is None:
        return found
    if found[0].stored != conversation_id:
        raise Conflict("id: a message of another conversation has this id", code="id_taken", field="id")
    return None


async def store_message(
    run: Fetch, found: Row[*tuple[Any, ...]], message: NewMessage, reply: Mapping[str, Any]
) -> Stored | None:
    """Store a message, and its reply with these values. None: the conversation has changed since it was found."""
    there = {"workspace": found.workspace, "conversation": found.conversation, "seen": found.seen}
    asked = {"new_message": message.id, "new_content": message.text, "title": title_of(message.text)}
    row = {f"new_{name}": reply[name] for name in _OF_REPLY}
    sent = {"first": reply["remembers_from"], "last": reply["seq"] - 2}
    statement, pictures = (_NEW_WITH_PICTURES, _pictures(message)) if message.pictures else (_NEW, {})
    rows = await run(statement, {**there, **asked, **row, **sent, **pictures})
    return _stored(rows[0], message, found.newest) if rows else None


def _stored(row: Row[*tuple[Any, ...]], message: NewMessage, newest: int) -> Stored:
    """The message and its reply, behind the `newest` revision, which a conversation without changes still has."""
    asked = MessageView(
        id=message.id,
        conversation_id=row.conversation_id,
        seq=row.seq - 1,
        revision=row.asked_revision,
        role="user",
        content=message.text,
        status="answered",
        created_at=row.asked_created_at,
        ended_at=None,
    )
    behind = newest if not message.pictures else None  # of which `asked` knows nothing
    return Stored(Changed((asked, message_view(row)), row.revision, behind=behind), row.lines)


def _pictures(message: NewMessage) -> dict[str, Any]:
    return {
        "picture_id": [str(uuid5(UUID(message.id), f"image {place}")) for place in range(len(message.pictures))],
        "picture_mime_type": [picture.mime_type for picture in message.pictures],
        "picture_data": [picture.data for picture in message.pictures],
    }


def begun(replica: str, chosen: Chosen, key: str, attempt: int, plan: Plan) -> dict[str, Any]:
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
        "owner": replica,
    }
