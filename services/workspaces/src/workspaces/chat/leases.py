"""Who calls agents for which replies: leases in the rows of the replies.

A replica renews the leases of its replies twice a second, all in one statement. That neither waits for locked rows nor
locks any for long; a row that is locked just then is renewed the next time.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from prometheus_client import Gauge
from sqlalchemy import Text, cast, exists, func, literal, or_, select, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from pallas_contracts.errors import Unavailable
from pallas_postgres.engine import fetch, reading, writing
from pallas_postgres.prepared import Prepared
from workspaces.chat.locking import message_told
from workspaces.chat.model import LEASE, Claim
from workspaces.chat.views import IS_RUNNING, RUNNING
from workspaces.live.hub import WORK, Hub
from workspaces.tables import REVISIONS, ChatMessage, Conversation

MOST_CLAIMED = 50
UNOWNED = timedelta(seconds=30)
"""A reply that nobody has held for so long is not taken over by anybody."""
_LOOK_SECONDS = 5.0
_IS_EXPIRED = or_(ChatMessage.leased_until.is_(None), ChatMessage.leased_until < func.now())
_SOME_ARE_LEFT = Prepared(select(exists().where(IS_RUNNING, _IS_EXPIRED).label("some")))
"""Asked first, since there are hardly ever any. Built once, since each replica asks twice a second."""
INTERRUPTED = "interrupted"
"""The code of a reply whose caller was lost, of an agent that cannot be asked for the same answer again."""
_RESTORED = (
    "This conversation was restored from a backup. The agent was being called when the backup was made, and may have "
    "done what it was asked. Check before you retry."
)


@dataclass(frozen=True, slots=True)
class Renewed:
    """What became of the replies of this replica: `answers` of those it still has, and those that it has `lost`.

    Of these, some are `deleted`, with their conversation.
    """

    answers: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    lost: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()


class Leases:
    """The leases of one replica, `owner`."""

    def __init__(self, engine: AsyncEngine, owner: str) -> None:
        self._engine = engine
        self.owner = owner

    async def renew(
        self, held: Mapping[str, Claim], lasting: Collection[str], progress: Mapping[str, dict[str, Any]]
    ) -> Renewed:
        """Renew the leases, and store the last progress of the replies.

        `lasting` are those that nobody else can get the answer of: they are lost only if nobody wants it any more.
        """
        if not held:
            return Renewed()
        mine = ChatMessage.owner == self.owner, ChatMessage.status.in_(RUNNING)
        free = (
            select(ChatMessage.id)
            .where(ChatMessage.id.in_(held), *mine)
            .with_for_update(skip_locked=True, key_share=True)
        )
        values: dict[str, Any] = {"leased_until": func.now() + LEASE}
        if progress:
            new = literal(dict(progress), JSONB)
            values["progress"] = func.coalesce(
                func.jsonb_extract_path(new, cast(ChatMessage.id, Text)), ChatMessage.progress
            )
        renewed = update(ChatMessage).where(ChatMessage.id.in_(free)).values(**values)
        renewed = renewed.returning(ChatMessage.id, ChatMessage.attempt, ChatMessage.answers)
        async with writing(self._engine) as session:
            rows = (await session.execute(renewed, execution_options={"synchronize_session": False})).all()
            still = dict[str, dict[str, Any]](
                (row.id, row.answers or {}) for row in rows if row.attempt == held[row.id].attempt
            )
            lost, deleted = set(held) - set(still), set[str]()
            if lost:
                now = (await session.scalars(select(ChatMessage).where(ChatMessage.id.in_(lost)))).all()
                deleted = lost - {row.id for row in now}
                lost -= {row.id for row in now if self._is_wanted(held[row.id], row, lasting)}
        return Renewed(still, frozenset(lost), frozenset(deleted))

    def _is_wanted(self, claim: Claim, row: ChatMessage, lasting: Collection[str]) -> bool:
        """Whether the row was only locked, or another replica waits in vain for the answer that comes here."""
        if row.id in lasting:
            return row.key == claim.key and (row.status in RUNNING or row.error_code == INTERRUPTED)
        return row.status in RUNNING and row.owner == self.owner and row.attempt == claim.attempt

    async def take_over(self, held: Collection[str]) -> list[Claim]:
        """Claim replies that nobody holds any more. `held` are those of this replica, however late it renews them."""
        if not (await fetch(self._engine, _SOME_ARE_LEFT))[0].some:
            return []
        left = ChatMessage.status.in_(RUNNING), _IS_EXPIRED, ChatMessage.id.not_in(held)
        async with writing(self._engine) as session:
            of_those = select(ChatMessage.conversation_id).where(*left).limit(MOST_CLAIMED)
            conversations = select(Conversation.id).where(Conversation.id.in_(of_those))
            locked = conversations.with_for_update(skip_locked=True, key_share=True)
            names = (await session.scalars(locked)).all()
            if not names:
                return []
            claimed = (
                update(ChatMessage)
                .where(ChatMessage.conversation_id.in_(names), *left)
                .values(
                    owner=self.owner,
                    leased_until=func.now() + LEASE,
                    attempt=ChatMessage.attempt + 1,
                    revision=REVISIONS.next_value(),
                )
                .returning(ChatMessage)
            )
            rows = (await session.scalars(claimed)).all()
            await Hub.tell_all_in(session, [message_told(row) for row in rows])
        return [Claim.of(row, taken_over=True) for row in rows]

    async def release(self, reply_ids: Sequence[str]) -> None:
        """Let other replicas have these replies at once."""
        mine = ChatMessage.owner == self.owner, ChatMessage.status.in_(RUNNING)
        released = update(ChatMessage).where(ChatMessage.id.in_(reply_ids), *mine).values(owner=None, leased_until=None)
        async with writing(self._engine) as session:
            await session.execute(released, execution_options={"synchronize_session": False})
            await Hub.tell_in(session, WORK, "replies", {})


async def watch_unowned(engine: AsyncEngine, unowned: Gauge) -> None:
    """Measure the replies that wait for a replica in vain, until cancelled."""
    held_until = func.coalesce(ChatMessage.leased_until, ChatMessage.created_at)
    left = ChatMessage.status.in_(RUNNING), held_until < func.now() - UNOWNED
    while True:
        with suppress(Unavailable):
            async with reading(engine) as session:
                unowned.set(await session.scalar(select(func.count()).where(*left)) or 0)
        await asyncio.sleep(_LOOK_SECONDS)


async def end_restored_replies(session: AsyncSession) -> None:
    """End the replies that agents were being called for when a backup was made, as interrupted.

    Whether an agent was called since is not known, so nobody calls it again: a person decides.
    """
    ended = {"status": "failed", "error_code": INTERRUPTED, "error": _RESTORED, "ended_at": func.now()}
    free = {"owner": None, "leased_until": None, "progress": None, "question": None}
    running = update(ChatMessage).where(ChatMessage.status.in_(RUNNING))
    await session.execute(
        running.values(**ended, **free, revision=REVISIONS.next_value()),
        execution_options={"synchronize_session": False},
    )
