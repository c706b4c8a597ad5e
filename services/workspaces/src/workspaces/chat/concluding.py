"""What a replica writes into a reply that it holds: a question, and how it has ended."""

from typing import Any

from sqlalchemy import and_, func, or_
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_contracts.errors import NotFound
from pallas_mcp_calls.model import Question
from pallas_postgres.engine import writing
from workspaces.chat.clean import clean, clean_text
from workspaces.chat.leases import INTERRUPTED
from workspaces.chat.locking import change_reply, lock_conversation
from workspaces.chat.model import Claim, Ending
from workspaces.chat.views import RUNNING
from workspaces.tables import ChatMessage


class Concluding:
    """Writes replies of the replica `owner`."""

    def __init__(self, engine: AsyncEngine, owner: str) -> None:
        self._engine = engine
        self._owner = owner

    async def conclude(self, claim: Claim, ending: Ending) -> bool:
        """Store how a reply has ended. False: that is not wanted any more.

        An answer is wanted whoever brings it, as long as the reply waits for this call: also if another replica has
        taken it over, or given it up. A failure counts only if this replica holds the reply.

        Raises:
            Unavailable: Postgres cannot be used right now.
        """
        waits = or_(ChatMessage.status.in_(RUNNING), ChatMessage.error_code == INTERRUPTED)
        answered = ending.status == "answered"
        wanted = and_(ChatMessage.key == claim.key, waits) if answered else self._held(claim)
        values = {
            "status": ending.status,
            "content": clean_text(ending.content),
            "error_code": ending.error_code,
            "error": clean_text(ending.error) if ending.error is not None else None,
            "turn_id": ending.turn_id,
            "ended_at": func.now(),
            "owner": None,
            "leased_until": None,
            "progress": None,
            "question": None,
        }
        async with writing(self._engine) as session:
            try:
                await lock_conversation(session, claim.conversation_id)
            except NotFound:
                return False
            return await change_reply(session, claim.reply_id, values, wanted, answering=False) is not None

    async def ask(self, claim: Claim, question: Question) -> dict[str, Any] | None:
        """Store what the agent asks. Returns the answer if there is one already.

        Raises:
            Unavailable: Postgres cannot be used right now.
            NotFound: the reply is somebody else's by now.
        """
        shown = {
            "id": question.id,
            "message": question.message,
            "requested_schema": question.requested_schema,
            "url": question.url,
        }
        values = {"status": "asking", "question": clean(shown)}
        async with writing(self._engine) as session:
            await lock_conversation(session, claim.conversation_id)
            reply = await session.get(ChatMessage, claim.reply_id)
            if reply is not None and question.id in (reply.answers or {}):
                return (reply.answers or {})[question.id]
            if await change_reply(session, claim.reply_id, values, self._held(claim)) is None:
                raise NotFound("the reply is held by another replica", code="lost")
        return None

    async def begin_anew(self, claim: Claim) -> Claim | None:
        """Store that the call is made anew, under another key and with another plan. None: it is somebody else's.

        Raises:
            Unavailable: Postgres cannot be used right now.
        """
        values: dict[str, Any] = {"key": claim.key, "answers": None}
        values |= {"remembers_from": claim.plan.first, "images_from": claim.plan.images}
        async with writing(self._engine) as session:
            await lock_conversation(session, claim.conversation_id)
            row = await change_reply(session, claim.reply_id, values, self._held(claim))
        return Claim.of(row, taken_over=False) if row is not None else None

    def _held(self, claim: Claim) -> Any:
        return and_(
            ChatMessage.owner == self._owner, ChatMessage.attempt == claim.attempt, ChatMessage.status.in_(RUNNING)
        )
