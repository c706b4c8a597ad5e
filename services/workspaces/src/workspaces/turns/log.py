"""Reads the log of turns: a page of them, one as a waterfall, two side by side."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import aliased

from pallas_postgres.engine import reading
from pallas_turns.history.contents import content_of, with_content
from pallas_turns.history.turn_list import TurnFilter
from pallas_turns.history.turn_page import find_page
from pallas_turns.history.turns import TurnHistory
from pallas_turns.replay import find_stored_turn
from workspaces.answers import Comparison, DearTurn, FailingAgent, TurnDay, TurnLine, TurnPage, TurnView
from workspaces.tables import ChatMessage, Conversation
from workspaces.turns.broker import Broker
from workspaces.turns.day import Days
from workspaces.turns.views import error_of, line_of, view_of, with_messages

MOST_CONTENT = 32 * 1024 * 1024
"""Bytes of content that are read of one turn. Of a turn with more, only how it ended is shown."""
_WITH_ANSWERS = ("completed", "input_required")
LONGEST_ASKED = 200
"""Characters of a message that are shown in the list."""
MOST_SECONDS = 1.5
"""Seconds of searching for one page. What a filter seldom finds is found page by page."""


@dataclass(frozen=True)
class TurnLog:
    """The log, and the conversations whose messages turns have answered.

    All raise `Unavailable` if there is no broker (`no_broker`) or it does not answer.
    """

    broker: Broker
    engine: AsyncEngine
    days: Days = field(default_factory=Days)

    async def page(self, wanted: TurnFilter, *, limit: int) -> TurnPage:
        """The latest turns that match."""
        page = await find_page(self.broker.need(), wanted, limit=limit, seconds=MOST_SECONDS)
        return TurnPage(turns=await self._lines(page.turns), next=page.next)

    async def day(self) -> TurnDay:
        """The slowest, dearest and failing turns of a day."""
        day = await self.days.read(self.broker.need())
        found = {turn.id: turn for turn in await self._lines(day.shown)}
        return TurnDay(
            since=day.since,
            shortened=day.shortened,
            turns=day.turns,
            failed=day.failed,
            slowest=tuple(found[turn.turn_id] for turn in day.slowest),
            dearest=tuple(
                DearTurn(turn=found[turn.turn_id], cost_nanos=nanos, currency=currency)
                for turn, nanos, currency in day.dearest
            ),
            failing=tuple(
                FailingAgent(team=team, agent=agent, code=code, error=error_of(code), turns=number, latest=latest)
                for (team, agent, code), number, latest in day.failing
            ),
        )

    async def _lines(self, turns: Sequence[TurnHistory]) -> tuple[TurnLine, ...]:
        """The turns as lines, with what conversations have of them."""
        asked = aliased(ChatMessage)
        query = (
            select(ChatMessage.turn_id, ChatMessage.error, func.left(asked.content, LONGEST_ASKED), Conversation)
            .join(Conversation, ChatMessage.conversation_id == Conversation.id)
            .join(asked, (asked.conversation_id == Conversation.id) & (asked.seq == ChatMessage.seq - 1))
            .where(ChatMessage.turn_id.in_([turn.turn_id for turn in turns]))
            .order_by(ChatMessage.revision.desc())
        )
        async with reading(self.engine) as session:
            known = {
                turn_id: {
                    "asked": next(iter(text.strip().splitlines()), "") or None,
                    "conversation": of.title,
                    "conversation_id": of.id,
                    "workspace_id": of.workspace_id,
                    **({"error": error} if error else {}),
                }
                for turn_id, error, text, of in await session.execute(query)
            }
        return tuple(line_of(turn).model_copy(update=known.get(turn.turn_id, {})) for turn in turns)

    async def show(self, turn_id: str, *, content: bool) -> TurnView:
        """One turn. With `content`, also what was asked and answered, while it is stored.

        Raises:
            NotFound: the log has no such turn (`unknown_turn`).
        """
        return await self._view(await self._whole(turn_id, content=content), content=content)

    async def compare(self, old_id: str, new_id: str) -> Comparison:
        """Two turns, each with its content; raises as `show` does."""
        old, new = await asyncio.gather(*(self._whole(each, content=True) for each in (old_id, new_id)))
        answered = old.state in _WITH_ANSWERS and new.state in _WITH_ANSWERS
        return Comparison(
            old=await self._view(old, content=True),
            new=await self._view(new, content=True),
            equal=content_of(old).equals(content_of(new)) if answered else None,
        )

    async def _whole(self, turn_id: str, *, content: bool) -> TurnHistory:
        bus = self.broker.need()
        turn = await find_stored_turn(bus, turn_id, most_content=MOST_CONTENT)
        return await with_content(bus, turn) if content else turn

    async def _view(self, turn: TurnHistory, *, content: bool) -> TurnView:
        view = view_of(turn, content=content)
        query = (
            select(ChatMessage, Conversation.workspace_id)
            .join(Conversation, ChatMessage.conversation_id == Conversation.id)
            .where(ChatMessage.turn_id == turn.turn_id)
            .limit(1)
        )
        async with reading(self.engine) as session:
            found = (await session.execute(query)).first()
            if found is None:
                return view
            reply, workspace = found
            asked = ChatMessage.conversation_id == reply.conversation_id, ChatMessage.seq == reply.seq - 1
            message = await session.scalar(select(ChatMessage.content).where(*asked))
        known = {"message_id": reply.id, "conversation_id": reply.conversation_id, "workspace_id": workspace}
        return with_messages(view, message or "", reply).model_copy(update=known)
