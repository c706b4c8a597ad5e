"""What is written into a reply by who calls its agent: a question, and how it ended. If it was cancelled: its text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.errors import NotFound
from pallas_mcp_calls.model import Question
from pallas_postgres.engine import Prepared, fetch, writing
from workspaces.answers import ImageView
from workspaces.chat.images import Picture
from workspaces.chat.locking import change_reply, changing, is_answering, lock_conversation, telling
from workspaces.chat.model import INTERRUPTED, Claim, Ending, clean, clean_text
from workspaces.chat.reading import Changed
from workspaces.chat.views import IS_RUNNING, conversation_topic, fields_of, message_view
from workspaces.live.hub import Hub
from workspaces.tables import REVISIONS, ChatMessage, Conversation, Image

_RESTORED = (
    "This conversation was restored from a backup. The agent was being called when the backup was made, and may have "
    "done what it was asked. Check before you retry."
)

_MINE = and_(ChatMessage.attempt == bindparam("the_attempt"), IS_RUNNING)
_WAITS = and_(
    ChatMessage.key == bindparam("the_key"),
    or_(IS_RUNNING, ChatMessage.error_code == INTERRUPTED),
)
_LOCKED = select(Conversation.id).where(Conversation.id == bindparam("conversation")).with_for_update(key_share=True)


def _ending(wanted: ColumnElement[bool]) -> Select[None, None]:
    """End a reply, if it is `wanted`. Built once, since each reply needs it.

    `behind` is the revision of a reply that ran. While one runs, nothing else of its conversation changes, so this was
    the conversation's newest revision. It is read from the locked row, which another replica may take over meanwhile.
    """
    locked = _LOCKED.cte("locked")
    before = (
        select(ChatMessage.id, case((IS_RUNNING, ChatMessage.revision)).label("behind"))
        .where(ChatMessage.id == bindparam("reply"), ChatMessage.conversation_id == locked.c.id)
        .with_for_update(of=ChatMessage, key_share=True)
        .cte("before")
    )
    new: dict[str, Any] = {
        name: bindparam(f"new_{name}") for name in ("status", "content", "error_code", "error", "turn_id")
    }
    over = {"ended_at": func.now(), "owner": null(), "question": null()}
    changed = changing(ChatMessage.id == before.c.id, wanted, **new, **over)
    ended = changed.returning(*ChatMessage.__table__.c, before.c.behind).cte("changed")
    return telling(ended, answering=False).add_columns(*ended.c)


_ANSWERED, _FAILED = Prepared(_ending(_WAITS)), Prepared(_ending(_MINE))


@dataclass(frozen=True)
class Concluding:
    """Writes replies."""

    engine: AsyncEngine
    hub: Hub

    async def conclude(self, claim: Claim, ending: Ending) -> bool:
        """Store how a reply has ended. False: that is not wanted any more.

        An answer is wanted whoever brings it, as long as the reply waits for this call: also if another replica has
        taken it over, or given it up. A failure counts only if nobody has begun another attempt.
        """
        images = await self._keep_pictures(claim, ending.pictures) if ending.pictures else ()
        mine = {"the_key": claim.key, "the_attempt": claim.attempt}
        values = {
            "new_status": ending.status,
            "new_content": clean_text(ending.content),
            "new_error_code": ending.error_code,
            "new_error": clean_text(ending.error) if ending.error is not None else None,
            "new_turn_id": ending.turn_id,
        }
        ended = _ANSWERED if ending.status == "answered" else _FAILED
        named = {"reply": claim.reply_id, "conversation": claim.conversation_id}
        with self.hub.telling_first(conversation_topic(claim.conversation_id)):
            rows = await fetch(self.engine, ended, {**named, **mine, **values})
            for row in rows:
                self.hub.tell_here(Changed((message_view(row, images),), row.revision, behind=row.behind).told())
        if images and not rows:
            unanswered = select(ChatMessage.id).where(ChatMessage.status != "answered")
            ids = [image.id for image in images]
            async with writing(self.engine) as session:
                await session.execute(delete(Image).where(Image.id.in_(ids), Image.message_id.in_(unanswered)))
        return bool(rows)

    async def _keep_pictures(self, claim: Claim, pictures: Sequence[Picture]) -> tuple[ImageView, ...]:
        """Store the pictures of an answer, before the answer: who reads the answer sees all of it.

        Whoever brings the answer of a call stores the same ones.
        """
        kept = [(str(uuid5(UUID(claim.reply_id), f"{claim.key} {n}")), picture) for n, picture in enumerate(pictures)]
        async with writing(self.engine) as session:
            reply = select(ChatMessage.id).where(ChatMessage.id == claim.reply_id, _WAITS)
            if await session.scalar(reply.with_for_update(key_share=True), {"the_key": claim.key}) is None:
                return ()
            await session.execute(delete(Image).where(Image.message_id == claim.reply_id))
            for position, (image_id, picture) in enumerate(kept):
                row = {"id": image_id, "message_id": claim.reply_id, "position": position}
                await session.execute(insert(Image).values(**row, mime_type=picture.mime_type, data=picture.data))
        return tuple(
            ImageView(id=image_id, mime_type=picture.mime_type, bytes=len(picture.data)) for image_id, picture in kept
        )

    async def ask(self, claim: Claim, question: Question) -> dict[str, Any] | None:
        """Store what the agent asks. Returns the answer if there is one already.

        Raises:
            NotFound: the reply is another replica's by now.
        """
        shown = {
            "id": question.id,
            "message": question.message,
            "requested_schema": question.requested_schema,
            "url": question.url,
            "fields": list(fields_of(question.requested_schema)),
        }
        values = {"status": "asking", "question": clean(shown)}
        async with writing(self.engine) as session:
            await lock_conversation(session, claim.conversation_id)
            reply = await session.get(ChatMessage, claim.reply_id)
            if reply is not None and question.id in (reply.answers or {}):
                return (reply.answers or {})[question.id]
            if await change_reply(session, claim.reply_id, values, *_mine(claim)) is None:
                raise NotFound("another replica calls the agent", code="lost")
        return None

    async def keep(self, claim: Claim, text: str) -> None:
        """Store what an agent has said for a reply that was cancelled meanwhile, unless it has text or is tried again.

        Nor is it stored if the next reply runs already: while one runs, nothing else of its conversation changes.

        Raises:
            NotFound: the conversation was deleted.
        """
        cancelled = ChatMessage.status == "cancelled", ChatMessage.attempt == claim.attempt, ChatMessage.content == ""
        async with writing(self.engine) as session:
            await lock_conversation(session, claim.conversation_id)
            if not await is_answering(session, claim.conversation_id):
                await change_reply(session, claim.reply_id, {"content": text}, *cancelled, answering=False)

    async def begin_anew(self, claim: Claim) -> Claim | None:
        """Store that the call is made anew, under another key and with another plan. None: it is somebody else's."""
        values: dict[str, Any] = {"key": claim.key, "answers": None}
        values |= {"remembers_from": claim.plan.first, "images_from": claim.plan.images}
        async with writing(self.engine) as session:
            await lock_conversation(session, claim.conversation_id)
            row = await change_reply(session, claim.reply_id, values, *_mine(claim))
        return Claim.of(row) if row is not None else None


def _mine(claim: Claim) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return ChatMessage.attempt == claim.attempt, IS_RUNNING


async def end_restored_replies(session: AsyncSession) -> None:
    """End the replies that agents were being called for when a backup was made, as interrupted.

    Whether an agent was called since is not known, so nobody calls it again: a person decides.
    """
    ended = {"status": "failed", "error_code": INTERRUPTED, "error": _RESTORED, "ended_at": func.now()}
    running = update(ChatMessage).where(IS_RUNNING)
    values = {**ended, "owner": None, "question": None, "revision": REVISIONS.next_value()}
    await session.execute(running.values(**values), execution_options={"synchronize_session": False})
