"""Ends and begins replies on behalf of the person: cancel, retry, answer a question."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.errors import Conflict, Rejected
from pallas_contracts.turns import effect_unknown
from pallas_postgres.engine import reading, writing
from pallas_schemas.schema import Schema
from workspaces.answers import MessageView, Sent, SettingsView
from workspaces.chat.choosing import Wanted, Wellness, choose_agent, must_see
from workspaces.chat.history import Plan, plan_history
from workspaces.chat.locking import change_reply, is_answering, lock_reply
from workspaces.chat.model import INTERRUPTED, Claim
from workspaces.chat.replies import Replies
from workspaces.chat.sending import answering, sent_as
from workspaces.chat.stored import read_entries, read_limits
from workspaces.chat.storing import begun
from workspaces.chat.views import RUNNING, message_view
from workspaces.live.hub import WORK, Hub
from workspaces.tables import ChatMessage, Image

_NOTHING = dict.fromkeys(("ended_at", "error_code", "error", "turn_id", "question", "answers"))
_MAYBE_DONE = (
    "the agent may have done already what it was asked, and a retry may do it once more; confirm that it is wanted"
)
_NO_ANSWER = ("unreachable", "connection_lost", "unavailable")
"""How a call has failed that may have an answer after all: it is repeated, under the same key."""


type Repeats = Callable[[str], Awaitable[bool | None]]
"""Whether a repetition of a turn would call a tool again that is not safe to call twice; None: nobody knows."""


@dataclass(frozen=True)
class Deciding:
    """What the person decides about replies."""

    engine: AsyncEngine
    hub: Hub
    wellness: Wellness
    defaults: SettingsView
    replies: Replies
    repeats: Repeats

    async def cancel(self, reply_id: str) -> MessageView:
        """End a reply, and the call for it, whichever replica has made that.

        Raises:
            NotFound: there is no such reply.
            Conflict: it has ended (`not_running`).
        """
        ended = {"status": "cancelled", "ended_at": func.now(), "owner": None, "question": None}
        async with writing(self.engine) as session:
            await lock_reply(session, reply_id)
            reply = await change_reply(session, reply_id, ended, ChatMessage.status.in_(RUNNING), answering=False)
            if reply is None:
                raise Conflict("this reply has ended", code="not_running")
            await Hub.tell_in(session, WORK, "replies", {})
        self.replies.cancel(Claim.of(reply))
        return message_view(reply)

    async def answer(
        self,
        reply_id: str,
        question_id: str | None,
        action: Literal["accept", "decline", "cancel"],
        content: dict[str, Any] | None,
    ) -> MessageView:
        """Answer what the agent asks. The first answer counts.

        Raises:
            NotFound: there is no such reply.
            Conflict: the agent asks nothing (`not_asking`), or something else by now (`answered`).
            Rejected: the content is not what was asked for.
            Unavailable: the content cannot be checked now (`busy`).
        """
        if action == "accept":
            question_id = await self._checked(reply_id, question_id, content or {})
        async with writing(self.engine) as session:
            _, reply = await lock_reply(session, reply_id)
            if reply.status != "asking" or reply.question is None:
                raise Conflict("the agent asks nothing, or has an answer", code="not_asking")
            asked = reply.question["id"]
            if question_id not in (None, asked):
                raise Conflict("this question has an answer, and there is another one", code="answered")
            answers = {**(reply.answers or {}), asked: {"action": action, "content": content}}
            values = {"status": "sending", "question": None, "answers": answers}
            changed = await change_reply(session, reply_id, values)
            assert changed is not None, "its conversation is locked"
            await Hub.tell_in(session, WORK, "replies", {})
        return message_view(changed)

    async def _checked(self, reply_id: str, question_id: str | None, content: dict[str, Any]) -> str | None:
        """Check an answer without a transaction, since a check may take time. Returns the question that it answers.

        Raises:
            Rejected, Unavailable: as `_must_fit`.
        """
        async with reading(self.engine) as session:
            reply = await session.get(ChatMessage, reply_id)
        if reply is None or reply.question is None or question_id not in (None, reply.question["id"]):
            return question_id  # which is refused
        await _must_fit(content, reply)
        return reply.question["id"]

    async def retry(self, reply_id: str, wanted: Wanted | None, *, confirmed: bool) -> Sent:
        """Call an agent again for a reply that failed or was cancelled: the same agent, or another one.

        Raises:
            NotFound: there is no such reply.
            Conflict: it has not failed (`not_failed`), an agent is answering (`answering`), or something may be done
                twice and the person has not `confirmed` that (`needs_confirmation`).
            Denied, Rejected, Unavailable: as for a message.
        """
        if not confirmed:
            async with reading(self.engine) as session:
                failed = await session.get(ChatMessage, reply_id)
            if failed is not None and failed.status in ("failed", "cancelled"):  # else it is refused
                joins = failed.error_code in _NO_ANSWER and wanted in (None, _agent_of(failed))
                await self._check(failed, joins=joins)
        try:
            async with writing(self.engine) as session:
                message_id, claim = await self._begin_again(session, reply_id, wanted)
        except IntegrityError as error:
            raise answering() from error
        self.replies.start(claim)
        return sent_as(claim.conversation_id, message_id, reply_id)

    async def check_repetition(self, message_id: str) -> None:
        """Check that a message, or that which a reply answers, may be asked anew without an effect that happens twice.

        Raises:
            Conflict: it may have one (`needs_confirmation`), or is still being answered (`answering`).
        """
        async with reading(self.engine) as session:
            reply = await session.get(ChatMessage, message_id)
            if reply is not None and reply.role == "user":
                its = ChatMessage.conversation_id == reply.conversation_id, ChatMessage.seq == reply.seq + 1
                reply = await session.scalar(select(ChatMessage).where(*its))
        if reply is None:
            return  # which is refused
        if reply.status in RUNNING:
            raise answering()
        await self._check(reply, joins=False)

    async def _check(self, reply: ChatMessage, *, joins: bool) -> None:
        """Ask the log whether a repetition may have an effect once more, or else how the reply ended.

        `joins`: it would be made under the same key, so that it joins what the agent does already.

        Raises:
            Conflict: it may, or nobody knows (`needs_confirmation`).
        """
        again = await self.repeats(reply.turn_id) if reply.turn_id is not None and not joins else None
        if again is None:
            lost = reply.error_code in (INTERRUPTED, "connection_lost", "unavailable")
            code = "cancelled" if reply.status == "cancelled" else "agent_unreachable" if lost else reply.error_code
            again = reply.status == "answered" or effect_unknown(code, retryable=joins)
        if again:
            raise Conflict(_MAYBE_DONE, code="needs_confirmation")

    async def _begin_again(self, session: AsyncSession, reply_id: str, wanted: Wanted | None) -> tuple[str, Claim]:
        conversation, reply = await lock_reply(session, reply_id)
        if await is_answering(session, conversation.id):
            raise answering()
        if reply.status not in ("failed", "cancelled"):
            raise Conflict("this reply has not failed", code="not_failed")
        named = _agent_of(reply)
        chosen = await choose_agent(session, conversation.workspace_id, wanted or named)
        asked = ChatMessage.conversation_id == conversation.id, ChatMessage.seq == reply.seq - 1
        message_id = (await session.execute(select(ChatMessage.id).where(*asked))).scalar_one()
        images = select(func.count()).select_from(Image).where(Image.message_id == message_id)
        must_see(chosen, await session.scalar(images) or 0)
        self.wellness.check(chosen)
        key, plan = reply.key or "", Plan(reply.remembers_from or reply.seq - 1, reply.images_from)
        if reply.error_code not in _NO_ANSWER or Wanted(chosen.server_id, chosen.instance_id) != named:
            *before, entry = await read_entries(session, conversation.id, reply.seq, images=chosen.model.vision)
            plan = plan_history(before, entry, chosen.model, await read_limits(session, self.defaults))
            key = str(uuid4())
        values = begun(self.hub.replica, chosen, key, reply.attempt + 1, plan)
        again = await change_reply(session, reply_id, {**_NOTHING, "content": "", **values}, answering=True)
        assert again is not None, "its conversation is locked"
        return message_id, Claim.of(again)


def _agent_of(reply: ChatMessage) -> Wanted:
    return Wanted(reply.agent_server_id or "", reply.agent_instance_id)


async def _must_fit(content: dict[str, Any], reply: ChatMessage) -> None:
    """Check an answer against the schema in the question. An agent whose schema is none checks the answer itself.

    Raises:
        Rejected: it does not fit.
        Unavailable: it cannot be checked now (`busy`).
    """
    if reply.question is None or (schema := reply.question.get("requested_schema")) is None:
        return
    try:
        compiled = await Schema.compiled(schema, f"{reply.agent_instance_id}/{reply.agent_server_id}")
    except Rejected:
        return
    faults = await compiled.faults(content)
    if faults:
        raise Rejected(f"content: {faults[0]}", field="content")
