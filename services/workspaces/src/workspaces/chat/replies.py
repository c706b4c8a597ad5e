"""Calls agents for the replies of this replica, and for those of replicas that are gone.

A reply is a row that names the replica which calls its agent. Nobody renews that: a replica is gone when its session at
Postgres has ended (`Hub`). Then another one writes itself into the row and makes the same call under the same key, by
which it joins the turn and hears everything from the beginning. A call without a key is made once: its reply ends as
interrupted.

Each replica looks twice a second, and whenever somebody decides about a reply, which replies it has to call agents for,
and what the person has decided about them. So it misses nothing if it misses a notification.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Row, Uuid, and_, bindparam, func, literal, or_, select, tuple_, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_bus.errors import is_cancelled
from pallas_contracts.errors import PallasError, Unavailable
from pallas_postgres.engine import Prepared, fetch, writing
from workspaces.chat.concluding import Concluding
from workspaces.chat.locking import message_told
from workspaces.chat.model import Called, Claim, Ending
from workspaces.chat.partial import Partial
from workspaces.chat.replying import Call, Replying, with_postgres
from workspaces.chat.views import IS_RUNNING, RUNNING
from workspaces.live.hub import REPLICAS, RESYNC, WORK, Hub, Live
from workspaces.metrics import Metrics
from workspaces.tables import REVISIONS, ChatMessage, Conversation

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
GONE_SECONDS = 0.4
"""How long a replica has to be gone: one that only connects to Postgres again is not."""
UNOWNED_SECONDS = 30.0
"""A reply that waits so long for a replica is not taken over by anybody."""
MOST_CLAIMED = 50
_KEY_IS_KNOWN = timedelta(days=1)
"""How long an agent is trusted to know a key. A call under a key that it has forgotten would be a new one."""

_NUMBER = func.split_part(func.coalesce(ChatMessage.owner, ""), "@", 1)
_LEFT = and_(IS_RUNNING, or_(ChatMessage.owner == bindparam("me"), _NUMBER.not_in(REPLICAS)))
_HELD = ChatMessage.id == func.any(bindparam("held", type_=ARRAY(Uuid(as_uuid=False))))
_FOUND = Prepared(
    select(
        ChatMessage.id,
        ChatMessage.status,
        ChatMessage.key,
        ChatMessage.attempt,
        ChatMessage.owner,
        ChatMessage.error_code,
        ChatMessage.answers,
    ).where(or_(_LEFT, _HELD))
)
"""The replies of this replica and of those that are gone, and what became of those that are `held`."""


class Replies:
    """Calls agents for replies, in a task each. Run `run` in a task; `stop` leaves the replies to other replicas."""

    def __init__(
        self, engine: AsyncEngine, replying: Replying, concluding: Concluding, hub: Hub, metrics: Metrics
    ) -> None:
        self._engine = engine
        self._replying = replying
        self._concluding = concluding
        self._hub = hub
        self._metrics = metrics
        self._calls = dict[str, Call]()
        self._left = dict[tuple[str, int], float]()
        """Replies (with their attempt) that nobody calls an agent for, and since when that is known."""
        self._cancels = set[asyncio.Task[None]]()
        """What is left to do for replies that were cancelled."""
        self._wake = asyncio.Event()
        self._stopping = False

    def start(self, claim: Claim) -> None:
        """Call the agent for a reply whose row names this replica."""
        if (old := self._calls.get(claim.reply_id)) is not None:
            old.cancel()
        partial = Partial(self._hub, claim.conversation_id, claim.reply_id, claim.attempt)
        call = self._calls[claim.reply_id] = Call(claim, partial, self._concluding)
        call.task = asyncio.create_task(self._reply(call), name=f"reply {claim.reply_id}")
        call.task.add_done_callback(lambda _: self._ended(call))
        if self._stopping:
            self._wake.set()

    def cancel(self, claim: Claim) -> None:
        """End the call for a reply that nobody wants any more, here and at the agent. Any replica may have made it."""
        if (call := self._calls.get(claim.reply_id)) is not None and call.claim.key == claim.key:
            self._lose(call)
        self._begin(self._replying.cancel(claim), f"cancel {claim.reply_id}")

    def partial_of(self, conversation_id: str) -> Partial | None:
        """What is said in a conversation, if its agent is called from here."""
        of_this = (call for call in self._calls.values() if call.claim.conversation_id == conversation_id)
        return next((call.partial for call in of_this), None)

    async def run(self) -> None:
        """Look after replies, until cancelled."""
        listening = asyncio.create_task(self._listen(), name="what is decided about replies")
        try:
            warned = False
            while True:
                try:
                    await self._look()
                    warned = False
                except Unavailable as error:
                    if is_cancelled():
                        raise asyncio.CancelledError from error
                    self._left.clear()  # replicas lose their sessions with Postgres, too
                    if not warned:
                        log.warning("replies cannot be looked after", extra={"reason": error.code})
                    warned = True
                with suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_SECONDS):
                        await self._wake.wait()
                self._wake.clear()
        finally:
            listening.cancel()
            for running in [*self._calls.values(), *self._cancels]:
                running.cancel()

    async def stop(self) -> None:
        """Begin with nothing new, leave what can go on elsewhere, and wait for the rest."""
        self._stopping = True
        self._wake.set()
        while tasks := [*self._cancels, *(call.task for call in self._calls.values() if call.task is not None)]:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    async def _look(self) -> None:
        calls = dict(self._calls)
        found = await fetch(self._engine, _FOUND, {"me": self._hub.replica, "held": list(calls)})
        rows = {row.id: row for row in found}
        await self._heed(calls, rows)
        now = time.monotonic()
        left = [row for row in found if row.status in RUNNING and row.id not in calls]
        self._left = {(row.id, row.attempt): self._left.get((row.id, row.attempt), now) for row in left}
        self._metrics.unowned.set(sum(now - since > UNOWNED_SECONDS for since in self._left.values()))
        if self._stopping:
            await self._release()
            return
        due = [row for row in left if _is_released(row) or now - self._left[row.id, row.attempt] >= GONE_SECONDS]
        for claim in await self._take_over(due[:MOST_CLAIMED]) if due else ():
            self._metrics.taken_over.inc()
            log.info("reply taken over", extra={"reply": claim.reply_id, "attempt": claim.attempt})
            self.start(claim)

    async def _heed(self, calls: Mapping[str, Call], rows: Mapping[str, Row[Any]]) -> None:
        """End the calls that nobody waits for any more, and pass answers to the others."""
        for name, call in calls.items():
            row = rows.get(name)
            if self._calls.get(name) is not call or call.is_ending:
                continue
            if row is None or row.status == "cancelled":  # by another replica, or with its conversation
                self.cancel(call.claim)
            elif not call.is_wanted(row):
                log.info("the reply is not this replica's any more", extra={"reply": name})
                self._lose(call)
            elif row.answers:
                await call.hear(row.answers)

    async def _take_over(self, left: Sequence[Row[Any]]) -> list[Claim]:
        """Claim these replies, but for those that another replica has claimed or that somebody is changing."""
        hosts = {row.id: (row.owner or "").partition("@")[2] for row in left}
        those = IS_RUNNING, tuple_(ChatMessage.id, ChatMessage.attempt).in_([(row.id, row.attempt) for row in left])
        of_those = Conversation.id.in_(select(ChatMessage.conversation_id).where(*those))
        forgotten = Conversation.updated_at < func.now() - literal(_KEY_IS_KNOWN)
        async with writing(self._engine) as session:
            locked = select(Conversation.id, forgotten).where(of_those)
            found = (await session.execute(locked.with_for_update(skip_locked=True, key_share=True))).all()
            is_forgotten = {conversation_id: bool(old) for conversation_id, old in found}
            claimed = (
                update(ChatMessage)
                .where(ChatMessage.conversation_id.in_(is_forgotten), *those)
                .values(owner=self._hub.replica, attempt=ChatMessage.attempt + 1, revision=REVISIONS.next_value())
                .returning(ChatMessage)
            )
            rows = (await session.scalars(claimed)).all() if found else ()
            await Hub.tell_all_in(session, [message_told(row) for row in rows])

        def called(row: ChatMessage) -> Called:
            if is_forgotten[row.conversation_id]:
                return "long ago"
            return "here" if hosts[row.id] == self._hub.host else "elsewhere"

        return [Claim.of(row, called=called(row)) for row in rows]

    async def _release(self) -> None:
        """Let other replicas have the replies whose calls can be repeated under their keys, and end these calls."""
        movable = {name: call for name, call in self._calls.items() if call.movable}
        if not movable:
            return
        mine = ChatMessage.owner == self._hub.replica, IS_RUNNING
        released = update(ChatMessage).where(ChatMessage.id.in_(movable), *mine).values(owner=f"@{self._hub.host}")
        async with writing(self._engine) as session:
            await session.execute(released, execution_options={"synchronize_session": False})
            await Hub.tell_in(session, WORK, "replies", {})
        for call in movable.values():
            call.cancel()

    def _lose(self, call: Call) -> None:
        """End a call that was lost, and keep its text if that was to a cancel."""
        call.cancel()
        if call.partial.text:
            self._begin(self._keep(call.claim, call.partial.text), f"text of {call.claim.reply_id}")

    async def _keep(self, claim: Claim, text: str) -> None:
        try:
            await self._concluding.keep(claim, text)
        except PallasError as error:
            log.info("the text of a cancelled reply is lost", extra={"reply": claim.reply_id, "reason": error.code})

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)

    async def _reply(self, call: Call) -> None:
        """Call the agent and store how it ended."""
        publishing = asyncio.create_task(call.partial.publish(), name=f"partial {call.claim.reply_id}")
        try:
            with self._metrics.answering.track_inprogress():
                [ending] = await asyncio.gather(self._replying.reply(call), return_exceptions=True)
        finally:
            publishing.cancel()
        if isinstance(ending, BaseException):
            extra = {"reply": call.claim.reply_id}
            log.error("a reply failed for a reason that is a bug", exc_info=ending, extra=extra)
            ending = Ending("failed", error_code="internal", error="An internal error has ended this reply.")
        if ending.status == "failed":
            ending = replace(ending, content=call.partial.text)
        claim = call.claim
        stored = await with_postgres(lambda: self._concluding.conclude(claim, ending), "store an answer")
        if stored:
            self._metrics.replies.labels(ending.status).inc()
        elif call.partial.text:
            await self._keep(claim, call.partial.text)  # if it was cancelled, which the agent told first
        await asyncio.sleep(0)  # event streams send the answer before it is logged
        facts = {"reply": claim.reply_id, "status": ending.status, "reason": ending.error_code, "stored": stored}
        log.info("reply ended", extra={**facts, "turn": ending.turn_id, "attempt": claim.attempt})

    def _ended(self, call: Call) -> None:
        if self._calls.get(call.claim.reply_id) is call:
            del self._calls[call.claim.reply_id]

    async def _listen(self) -> None:
        async with self._hub.subscribe(WORK) as items:
            async for item in items:
                self._hear(item)

    def _hear(self, item: Live) -> None:
        if item.kind in ("replies", RESYNC):
            self._wake.set()
        elif item.kind == "partial" and (partial := self.partial_of(item.data["conversation_id"])) is not None:
            partial.repeat()


def _is_released(row: Row[Any]) -> bool:
    """Whether its replica has left a reply to others."""
    return (row.owner or "@").startswith("@")
