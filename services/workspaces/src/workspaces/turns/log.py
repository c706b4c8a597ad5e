"""Reads the log of turns: a page of them, one as a waterfall, two side by side."""

import asyncio
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_postgres.engine import reading
from pallas_turns.history.contents import content_of, with_content
from pallas_turns.history.turn_list import TurnFilter
from pallas_turns.history.turn_page import find_page
from pallas_turns.history.turns import TurnHistory
from pallas_turns.replay import find_stored_turn
from workspaces.answers import Comparison, TurnPage, TurnView
from workspaces.tables import ChatMessage, Conversation
from workspaces.turns.broker import Broker
from workspaces.turns.views import line_of, view_of, with_messages

MOST_CONTENT = 32 * 1024 * 1024
"""Bytes of content that are read of one turn. Of a turn with more, only how it ended is shown."""
_WITH_ANSWERS = ("completed", "input_required")
MOST_SECONDS = 1.5
"""Seconds of searching for one page. What a filter seldom finds is found page by page."""


@dataclass(frozen=True)
class TurnLog:
    """The log, and the conversations whose messages turns have answered.

    All raise `Unavailable` if there is no broker (`no_broker`) or it does not answer.
    """

    broker: Broker
    engine: AsyncEngine

    async def page(self, wanted: TurnFilter, *, limit: int) -> TurnPage:
        """The latest turns that match."""
        page = await find_page(self.broker.need(), wanted, limit=limit, seconds=MOST_SECONDS)
        return TurnPage(turns=tuple(map(line_of, page.turns)), next=page.next)

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
