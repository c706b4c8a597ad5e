"""Conversations: list, create, rename, delete."""

import asyncio
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, delete, exists, func, or_, select, true, tuple_, update
from sqlalchemy.dialects.postgresql import distinct_on, insert
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.orm import aliased

from pallas_contracts.errors import Conflict, NotFound, Rejected
from pallas_postgres.engine import reading, writing
from workspaces.answers import ConversationPage, ConversationView, FoundConversation, FoundConversations
from workspaces.chat.locking import (
    conversation_told,
    is_answering,
    lock_conversation,
    unknown_conversation,
)
from workspaces.chat.views import RUNNING, conversation_view
from workspaces.live.hub import ALL, WORK, Hub, Live
from workspaces.tables import ChatMessage, Conversation, Workspace

LONGEST_TITLE = 200
LONGEST_MADE_TITLE = 80
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKDOWN = re.compile(r"^\s*(?:#{1,6}\s+|>\s*|[-*+]\s+|\d+[.)]\s+|```.*|[-=*_]{3,}\s*$)+|\*\*|__|~~|`")
_MOST_SEARCHES = 2
_MOST_SEARCHED = 2_000
"""Conversations that a search looks at. No index helps to find a part of a word, and each keystroke may search."""
_AROUND = 60
"""Characters that are shown before and behind what was found."""


_OTHER = aliased(Conversation)
_LATEST = ~exists().where(_OTHER.root_id == Conversation.root_id, _OTHER.updated_at > Conversation.updated_at)
"""No other branch of a conversation has changed later."""


@dataclass(frozen=True)
class Conversations:
    """The conversations of all workspaces. An id that no conversation or workspace has is `NotFound`."""

    engine: AsyncEngine
    _searches: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MOST_SEARCHES))

    async def page(self, workspace_id: str, before: str | None, limit: int) -> ConversationPage:
        """A page of a workspace's conversations, the latest first; of branches that which has changed last.

        Raises:
            Rejected: `before` is no `next` of a page.
        """
        running = exists().where(ChatMessage.conversation_id == Conversation.id, ChatMessage.status.in_(RUNNING))
        latest = tuple_(Conversation.updated_at, Conversation.id)
        wanted = select(Conversation, running).where(Conversation.workspace_id == workspace_id, _LATEST)
        if before is not None:
            wanted = wanted.where(latest < _cursor_of(before))
        wanted = wanted.order_by(Conversation.updated_at.desc(), Conversation.id.desc()).limit(limit + 1)
        async with reading(self.engine) as session:
            if await session.get(Workspace, workspace_id) is None:
                raise _unknown_workspace()
            rows = (await session.execute(wanted)).all()
        views = [conversation_view(row, answering=answering) for row, answering in rows[:limit]]
        more = len(rows) > limit
        return ConversationPage(conversations=tuple(views), next=_cursor(views[-1]) if more else None)

    async def search(self, words: str, workspace_id: str | None, limit: int) -> FoundConversations:
        """The latest conversations whose title or messages have this text, in upper or lower case.

        Of the branches of a conversation one is found, if possible one whose messages have the text. Only the latest
        conversations are looked at.
        """
        some = select(Conversation).order_by(Conversation.updated_at.desc()).limit(_MOST_SEARCHED)
        if workspace_id is not None:
            some = some.where(Conversation.workspace_id == workspace_id)
        one = aliased(Conversation, some.subquery())
        message = ChatMessage.conversation_id == one.id, ChatMessage.content.icontains(words, autoescape=True)
        hit = select(ChatMessage.content).where(*message).order_by(ChatMessage.seq.desc()).limit(1).lateral()
        root, said = func.coalesce(one.root_id, one.id), hit.c.content.is_not(None)
        best = (
            select(one.id, hit.c.content)
            .outerjoin(hit, true())
            .where(or_(one.title.icontains(words, autoescape=True), said))
            .ext(distinct_on(root))
            .order_by(root, said.desc(), one.updated_at.desc())
            .subquery()
        )
        wanted = select(Conversation, best.c.content).join(best, best.c.id == Conversation.id)
        async with self._searches, reading(self.engine) as session:
            rows = await session.execute(wanted.order_by(Conversation.updated_at.desc()).limit(limit))
            found = [
                FoundConversation(
                    id=one.id,
                    workspace_id=one.workspace_id,
                    title=one.title,
                    updated_at=one.updated_at,
                    excerpt=_excerpt(content, words),
                )
                for one, content in rows
            ]
        return FoundConversations(conversations=tuple(found))

    async def create(self, workspace_id: str, title: str, conversation_id: str | None) -> ConversationView:
        """Create a conversation. The id may be chosen; the same id again is the same conversation.

        Raises:
            Conflict: the id is that of a conversation in another workspace.
        """
        conversation_id = conversation_id or str(uuid4())
        async with writing(self.engine) as session:
            conversation, is_new = await make_conversation(session, workspace_id, conversation_id, title)
            answering = await is_answering(session, conversation_id)
            if is_new:
                await Hub.tell_all_in(session, (conversation_told(conversation, answering=False),))
        return conversation_view(conversation, answering=answering)

    async def rename(self, conversation_id: str, title: str) -> ConversationView:
        """Give a conversation and its branches another title."""
        async with writing(self.engine) as session:
            conversation = await lock_conversation(session, conversation_id)
            await session.execute(update(Conversation).where(_with_branches(conversation)).values(title=title))
            await session.refresh(conversation)
            answering = await is_answering(session, conversation_id)
            await Hub.tell_all_in(session, (conversation_told(conversation, answering=answering),))
        return conversation_view(conversation, answering=answering)

    async def delete(self, conversation_id: str) -> None:
        """Delete a conversation with its messages and branches. Replies that agents are called for are cancelled."""
        async with writing(self.engine) as session:
            conversation = await lock_conversation(session, conversation_id)
            its = delete(Conversation).where(_with_branches(conversation)).returning(Conversation.id)
            deleted = (await session.scalars(its)).all()
            gone = (Live(ALL, "conversation_deleted", {"id": one}) for one in deleted)
            await Hub.tell_all_in(session, (*gone, Live(WORK, "replies")))

    async def must_exist(self, conversation_id: str) -> None:
        """Check that there is such a conversation."""
        async with reading(self.engine) as session:
            if await session.get(Conversation, conversation_id) is None:
                raise unknown_conversation()


async def make_conversation(
    session: AsyncSession, workspace_id: str, conversation_id: str, title: str = ""
) -> tuple[Conversation, bool]:
    """The conversation with this id, locked, and whether it was made just now. Browsers are not told.

    Raises:
        NotFound, Conflict: as `Conversations.create`.
    """
    workspace = select(Workspace.id).where(Workspace.id == workspace_id).with_for_update(key_share=True, read=True)
    if await session.scalar(workspace) is None:
        raise _unknown_workspace()
    new = insert(Conversation).values(id=conversation_id, workspace_id=workspace_id, title=title)
    is_new = (await session.execute(new.on_conflict_do_nothing().returning(Conversation.id))).one_or_none()
    conversation = await lock_conversation(session, conversation_id)
    if conversation.workspace_id != workspace_id:
        raise Conflict("id: a conversation of another workspace has this id", code="id_taken", field="id")
    return conversation, is_new is not None


def title_of(text: str) -> str:
    """The title that a conversation gets from its first message: the beginning of its first line, without Markdown."""
    lines = (" ".join(_MARKDOWN.sub("", _LINK.sub(r"\1", line)).split()) for line in text.splitlines())
    line = next(filter(None, lines), " ".join(text.split()) or "Image")
    if len(line) <= LONGEST_MADE_TITLE:
        return line
    cut = line[:LONGEST_MADE_TITLE]
    whole_words = cut.rpartition(" ")[0]
    return f"{whole_words if len(whole_words) > LONGEST_MADE_TITLE // 2 else cut}…"


def _with_branches(conversation: Conversation) -> ColumnElement[bool]:
    root = conversation.root_id or conversation.id
    return or_(Conversation.id == root, Conversation.root_id == root)


def _excerpt(content: str | None, words: str) -> str | None:
    if content is None:
        return None
    at = max(0, content.lower().find(words.lower()) - _AROUND)
    shown = " ".join(content[at : at + len(words) + 2 * _AROUND].split())
    return f"{'…' if at else ''}{shown}"


def _cursor(last: ConversationView) -> str:
    return f"{last.updated_at.isoformat().replace('+00:00', 'Z')}_{last.id}"


def _cursor_of(text: str) -> tuple[datetime, str]:
    try:
        moment, _, conversation_id = text.rpartition("_")
        at = datetime.fromisoformat(moment)
        if at.tzinfo is None:
            raise ValueError("no time zone")
        return at.astimezone(UTC), str(UUID(conversation_id))
    except (ValueError, OverflowError) as error:
        raise Rejected("before: must be the `next` of a page", field="before") from error


def _unknown_workspace() -> NotFound:
    return NotFound("there is no such workspace", code="unknown_workspace")
