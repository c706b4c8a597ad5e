"""Reads messages: pages of a conversation, and what has changed since a revision."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, and_, bindparam, func, select, text
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_postgres.engine import Prepared, fetch, reading
from workspaces.answers import BranchView, ImageView, MessagePage, MessageView
from workspaces.chat.locking import is_answering, unknown_conversation
from workspaces.chat.views import conversation_topic, conversation_view, message_view
from workspaces.live.hub import Live
from workspaces.tables import ChatMessage, Conversation, Image

_IMAGE = func.json_build_object("id", Image.id, "mime_type", Image.mime_type, "bytes", func.octet_length(Image.data))
_IMAGES = func.coalesce(func.json_agg(aggregate_order_by(_IMAGE, Image.position)), text("'[]'"))
_SHOWN = select(
    *ChatMessage.__table__.c, select(_IMAGES).where(Image.message_id == ChatMessage.id).scalar_subquery().label("shown")
)
"""Messages with what is shown of their images."""
MOST_CHANGED = 200
"""Messages that a stream sends for one resumption; whoever has missed more loads the page again."""


@dataclass(frozen=True, slots=True)
class Changed:
    """Messages that have changed, by revision. `too_many`: these are not all, and `revision` is behind the others.

    They are all that has changed in the conversation since the revision `behind`; None: that is not known.
    """

    messages: tuple[MessageView, ...]
    revision: int
    too_many: bool = False
    behind: int | None = None

    def told(self) -> Live:
        """The same for streams of this replica, which need not read it."""
        topic = conversation_topic(self.messages[-1].conversation_id)
        return Live(topic, "message", {"revision": self.revision, "changed": self})


_WITHIN = ChatMessage.conversation_id == bindparam("conversation")
_BEHIND = and_(_WITHIN, ChatMessage.revision > bindparam("after"))
_BRANCHES = select(Conversation).where(Conversation.root_id == bindparam("root")).order_by(Conversation.created_at)
_NEWEST = Prepared(select(func.max(ChatMessage.revision)).where(_BEHIND))
_CHANGED = Prepared(_SHOWN.where(_BEHIND).order_by(ChatMessage.revision).limit(MOST_CHANGED + 1))
_ONE = Prepared(_SHOWN.where(ChatMessage.id == bindparam("message")))


@dataclass(frozen=True)
class Reading:
    """Reads messages."""

    engine: AsyncEngine

    async def page(self, conversation_id: str, before: int | None, limit: int) -> MessagePage:
        """A conversation with its latest messages, or with those before a `seq`.

        Raises:
            NotFound: there is no such conversation.
        """
        wanted = _SHOWN.where(ChatMessage.conversation_id == conversation_id)
        if before is not None:
            wanted = wanted.where(ChatMessage.seq < before)
        wanted = wanted.order_by(ChatMessage.seq.desc()).limit(limit + 1)
        async with reading(self.engine) as session:
            conversation = await session.get(Conversation, conversation_id)
            if conversation is None:
                raise unknown_conversation()
            answering = await is_answering(session, conversation_id)
            rows = (await session.execute(wanted)).all()
            branches = (await session.scalars(_BRANCHES, {"root": conversation.root_id})).all()
        views = tuple(map(_view, rows[:limit][::-1]))
        older = views[0].seq if len(rows) > limit else None
        view = conversation_view(conversation, answering=answering)
        return MessagePage(conversation=view, messages=views, before=older, branches=tuple(map(_branch, branches)))

    async def message(self, message_id: str) -> MessageView | None:
        """One message."""
        rows = await fetch(self.engine, _ONE, {"message": message_id})
        return _view(rows[0]) if rows else None

    async def newest(self, conversation_id: str) -> int:
        """The newest revision in a conversation, 0 without messages."""
        return await self._newest({"conversation": conversation_id, "after": 0}) or 0

    async def changed(self, conversation_id: str, after: int) -> Changed:
        """The messages with a greater revision than `after`."""
        wanted = {"conversation": conversation_id, "after": after}
        rows = await fetch(self.engine, _CHANGED, wanted)
        if len(rows) > MOST_CHANGED:
            return Changed((), await self._newest(wanted) or after, too_many=True)
        return Changed(tuple(map(_view, rows)), rows[-1].revision if rows else after)

    async def _newest(self, wanted: dict[str, Any]) -> int | None:
        [(newest,)] = await fetch(self.engine, _NEWEST, wanted)
        return newest


def _branch(row: Conversation) -> BranchView:
    return BranchView.model_validate(row, from_attributes=True)


def _view(row: Row[Any]) -> MessageView:
    return message_view(row, [ImageView.model_validate(image) for image in row.shown])
