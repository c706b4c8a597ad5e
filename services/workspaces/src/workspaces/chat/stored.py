"""Reads what a conversation holds: sizes of messages for planning, and contents for a call."""

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    FromClause,
    Integer,
    ScalarSelect,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal_column,
    null,
    select,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_postgres.engine import Prepared, fetch
from workspaces.answers import SettingsView
from workspaces.chat.history import MOST_ENTRIES, Entry, Limits
from workspaces.chat.model import Claim, NewMessage
from workspaces.stored_settings import stored_settings
from workspaces.tables import ChatMessage, Image

_PICTURED = exists().where(Image.message_id == ChatMessage.id).label("pictured")
_SIZES = func.array(
    select(func.octet_length(Image.data)).where(Image.message_id == ChatMessage.id).scalar_subquery(),
    type_=ARRAY(Integer),
)
_NONE = literal_column("'{}'::integer[]", ARRAY(Integer))
_LAST = 2**31 - 1


def newest(images: ColumnElement[bool], *outer: FromClause) -> ScalarSelect[Any]:
    """The newest messages before a `seq`, for `entries_of`. `images`, which may be of an `outer` table: with images."""
    size, sizes = func.octet_length(ChatMessage.content), case((images, _SIZES), else_=_NONE)
    lines = (
        select(ChatMessage.seq, ChatMessage.role, ChatMessage.status, size.label("size"), sizes.label("images"))
        .where(ChatMessage.conversation_id == bindparam("conversation"), ChatMessage.seq < bindparam("before", _LAST))
        .order_by(ChatMessage.seq.desc())
        .limit(literal_column(str(MOST_ENTRIES)))
        .correlate(*outer)
        .subquery()
    )
    return select(func.json_agg(func.json_build_array(*lines.c))).scalar_subquery()


_ENTRIES = select(newest(bindparam("images", type_=Boolean)))
_SENT = and_(
    ChatMessage.conversation_id == bindparam("conversation"),
    ChatMessage.seq.between(bindparam("first"), bindparam("last")),
)
_OF_LINE = ChatMessage.seq, ChatMessage.role, ChatMessage.status, ChatMessage.content
_LINES = Prepared(select(ChatMessage.id, *_OF_LINE, _PICTURED).where(_SENT).order_by(ChatMessage.seq))
_DATA = case((ChatMessage.seq >= bindparam("with_data"), Image.data), else_=null()).label("data")
_PICTURES = Prepared(
    select(Image.message_id, Image.mime_type, _DATA).join(ChatMessage).where(_SENT).order_by(Image.position)
)
LINES = select(func.json_agg(func.json_build_array(_PICTURED.element, *_OF_LINE))).where(_SENT).scalar_subquery()
"""Built once, since each message needs them."""
NO_IMAGE = "[image]"
"""What stands for an image that is not sent again."""


@dataclass(frozen=True, slots=True)
class Line:
    """A stored message. The data of a picture is None if it is not to be sent again."""

    seq: int
    role: str
    status: str
    content: str
    pictures: list[tuple[str, bytes | None]] = field(default_factory=list[tuple[str, bytes | None]])


async def read_limits(session: AsyncSession, defaults: SettingsView) -> Limits:
    """The limits of history in the global settings."""
    return limits_of(await stored_settings(session, defaults))


def limits_of(settings: SettingsView) -> Limits:
    """The limits of history in these settings."""
    return Limits(settings.history_share, settings.history_messages, settings.history_bytes)


async def read_entries(session: AsyncSession, conversation_id: str, before: int, *, images: bool) -> list[Entry]:
    """The newest messages before a `seq`, the oldest first. Without `images` their images are left out."""
    named = {"conversation": conversation_id, "before": before, "images": images}
    return entries_of(await session.scalar(_ENTRIES, named))


def entries_of(found: list[Any] | None) -> list[Entry]:
    """What `newest` has found, the oldest first."""
    entries = [Entry(seq, role, status, size, tuple(images)) for seq, role, status, size, images in found or ()]
    return sorted(entries, key=lambda entry: entry.seq)


async def read_arguments(engine: AsyncEngine, claim: Claim) -> dict[str, Any]:
    """The arguments of the call for a reply (interface contract, section 2)."""
    asked = claim.seq - 1
    wanted = {"conversation": claim.conversation_id, "first": claim.plan.first, "last": asked}
    rows = await fetch(engine, _LINES, wanted)
    lines = {row.id: Line(row.seq, row.role, row.status, row.content) for row in rows}
    if any(row.pictured for row in rows):  # images never change
        with_data = asked if claim.plan.images is None else min(claim.plan.images, asked)
        for row in await fetch(engine, _PICTURES, {**wanted, "with_data": with_data}):
            lines[row.message_id].pictures.append((row.mime_type, row.data))
    found = list(lines.values())
    if any(line.pictures for line in found):
        return await asyncio.to_thread(arguments_of, found, claim)
    return arguments_of(found, claim)


def arguments_with(found: list[Any] | None, asked: NewMessage, claim: Claim) -> dict[str, Any] | None:
    """The same from what `LINES` has found before the message `asked`. None: there are images, which it leaves out."""
    if asked.pictures or any(pictured for pictured, *_ in found or ()):
        return None
    before = sorted((Line(*line) for _, *line in found or ()), key=lambda line: line.seq)
    return arguments_of([*before, Line(claim.seq - 1, "user", "answered", asked.text)], claim)


def arguments_of(lines: Sequence[Line], claim: Claim) -> dict[str, Any]:
    """The arguments, from the messages that are sent: the last one is to be answered."""
    *before, asked = lines
    history = list[dict[str, Any]]()
    for line, reply in pairwise(before):
        if line.role == "user" and reply.role == "assistant" and reply.status == "answered":
            history += (_said(line), _said(reply))
    arguments: dict[str, Any] = {"message": asked.content, "conversation_id": claim.conversation_id}
    if history:
        arguments["history"] = history
    if asked.pictures:
        arguments["images"] = _encoded(asked)
    return arguments


def _said(line: Line) -> dict[str, Any]:
    if line.role == "assistant":  # those that an agent has sent are not sent back
        line = replace(line, pictures=[(kind, None) for kind, _ in line.pictures])
    left_out = [NO_IMAGE for _, data in line.pictures if data is None]
    content = "\n".join([line.content, *left_out] if line.content else left_out)
    said: dict[str, Any] = {"role": line.role, "content": content}
    return {**said, "images": images} if (images := _encoded(line)) else said


def _encoded(line: Line) -> list[dict[str, str]]:
    return [
        {"data": base64.b64encode(data).decode(), "mime_type": mime_type}
        for mime_type, data in line.pictures
        if data is not None
    ]
