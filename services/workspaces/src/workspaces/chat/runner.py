"""Runs the replies of this replica, and takes over those of replicas that are gone.

Twice a second, and whenever somebody decides about a reply, this replica renews its leases. From the rows it learns
what it has lost (to a cancel, or to another replica) and what the person has answered. So it misses nothing if it
misses a notification.
"""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pallas_bus.transport.retry import is_cancelled
from pallas_contracts.errors import PallasError, Unavailable
from workspaces.chat.concluding import Concluding
from workspaces.chat.held import Held
from workspaces.chat.leases import Leases
from workspaces.chat.model import Claim, Ending
from workspaces.chat.patience import with_postgres
from workspaces.chat.replying import Replying
from workspaces.chat.voice import Voice
from workspaces.live.hub import RESYNC, WORK, Hub, Live
from workspaces.metrics import Metrics

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5


class Runner:
    """Calls agents for replies, in a task each. Run `run` in a task; `stop` hands everything over."""

    def __init__(self, leases: Leases, replying: Replying, concluding: Concluding, hub: Hub, metrics: Metrics) -> None:
        self._leases = leases
        self._replying = replying
        self._concluding = concluding
        self._hub = hub
        self._metrics = metrics
        self._held = dict[str, Held]()
        self._cancels = set[asyncio.Task[None]]()
        """What is left to do for replies that were cancelled."""
        self._wake = asyncio.Event()
        self._stopping = False

    def start(self, claim: Claim) -> None:
        """Call the agent for a reply that this replica holds."""
        if (old := self._held.get(claim.reply_id)) is not None:
            old.cancel()
        held = Held(claim, Voice(self._hub, claim.conversation_id, claim.reply_id, claim.attempt), self._concluding)
        self._held[claim.reply_id] = held
        held.task = asyncio.create_task(self._reply(held), name=f"reply {claim.reply_id}")
        held.task.add_done_callback(lambda _: self._ended(held))
        if self._stopping:
            self._wake.set()

    def cancel(self, claim: Claim) -> None:
        """End the call for a reply that nobody wants any more, here and at the agent. Any replica may have made it."""
        if (held := self._held.get(claim.reply_id)) is not None and held.claim.key == claim.key:
            self._lose(held)
        self._begin(self._replying.cancel(claim), f"cancel {claim.reply_id}")

    def voice_of(self, conversation_id: str) -> Voice | None:
        """What is said in a conversation, if its agent is called from here."""
        of_this = (held for held in self._held.values() if held.claim.conversation_id == conversation_id)
        return next((held.voice for held in of_this), None)

    async def run(self) -> None:
        """Renew and take over, until cancelled."""
        listening = asyncio.create_task(self._listen(), name="what is decided about replies")
        try:
            warned = False
            while True:
                try:
                    await self._tick()
                    warned = False
                except Unavailable as error:
                    if is_cancelled():
                        raise asyncio.CancelledError from error
                    if not warned:
                        log.warning("leases of replies cannot be renewed", extra={"reason": error.code})
                    warned = True
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK_SECONDS):
                        await self._wake.wait()
                self._wake.clear()
        finally:
            listening.cancel()
            for running in [*self._held.values(), *self._cancels]:
                running.cancel()

    async def stop(self) -> None:
        """Begin with nothing new, hand over what can go on elsewhere, and wait for the rest."""
        self._stopping = True
        self._wake.set()
        while tasks := [*self._cancels, *(held.task for held in self._held.values() if held.task is not None)]:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)

    async def _tick(self) -> None:
        claims = {name: held.claim for name, held in self._held.items()}
        lasting = {name for name, held in self._held.items() if not held.movable}
        renewed = await self._leases.renew(claims, lasting, self._unsaved())
        for name in renewed.lost:
            if (held := self._held.get(name)) is not None and held.claim is claims[name]:
                log.info("the reply is not this replica's any more", extra={"reply": name})
                if name in renewed.deleted:
                    self.cancel(held.claim)
                else:
                    self._lose(held)
        for name, answers in renewed.answers.items():
            if (held := self._held.get(name)) is not None:
                await held.hear(answers)
        if self._stopping:
            await self._hand_over()
            return
        for claim in await self._leases.take_over(list(self._held)):
            self._metrics.taken_over.inc()
            log.info("reply taken over", extra={"reply": claim.reply_id, "attempt": claim.attempt})
            self.start(claim)

    def _unsaved(self) -> dict[str, dict[str, object]]:
        lines = dict[str, dict[str, object]]()
        for name, held in self._held.items():
            if held.voice.unsaved is not None:
                lines[name], held.voice.unsaved = held.voice.unsaved, None
        return lines

    def _lose(self, held: Held) -> None:
        """End a call that was lost, and keep its text if that was to a cancel."""
        held.cancel()
        if held.voice.text:
            self._begin(self._keep(held.claim, held.voice.text), f"text of {held.claim.reply_id}")

    async def _keep(self, claim: Claim, text: str) -> None:
        try:
            await self._concluding.keep(claim, text)
        except PallasError as error:
            log.info("the text of a cancelled reply is lost", extra={"reply": claim.reply_id, "reason": error.code})

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)

    async def _hand_over(self) -> None:
        """Release the replies whose calls can be repeated under their keys, and end these calls."""
        movable = {name: held for name, held in self._held.items() if held.movable}
        if movable:
            await self._leases.release(list(movable))
            for held in movable.values():
                held.cancel()

    async def _reply(self, held: Held) -> None:
        """Call the agent and store how it ended."""
        speaking = asyncio.create_task(held.voice.run(), name=f"voice of {held.claim.reply_id}")
        try:
            with self._metrics.answering.track_inprogress():
                [ending] = await asyncio.gather(self._replying.reply(held), return_exceptions=True)
        finally:
            speaking.cancel()
        if isinstance(ending, BaseException):
            extra = {"reply": held.claim.reply_id}
            log.error("a reply failed for a reason that is a bug", exc_info=ending, extra=extra)
            ending = Ending("failed", error_code="internal", error="An internal error has ended this reply.")
        if ending.status == "failed":
            ending = replace(ending, content=held.voice.text)
        claim = held.claim
        stored = await with_postgres(lambda: self._concluding.conclude(claim, ending), "store an answer")
        if stored:
            self._metrics.replies.labels(ending.status).inc()
        await asyncio.sleep(0)  # event streams send the answer before it is logged
        facts = {"reply": claim.reply_id, "status": ending.status, "reason": ending.error_code, "stored": stored}
        log.info("reply ended", extra={**facts, "turn": ending.turn_id, "attempt": claim.attempt})

    def _ended(self, held: Held) -> None:
        if self._held.get(held.claim.reply_id) is held:
            del self._held[held.claim.reply_id]

    async def _listen(self) -> None:
        async with self._hub.subscribe(WORK) as items:
            async for item in items:
                self._hear(item)

    def _hear(self, item: Live) -> None:
        if item.kind in ("replies", RESYNC):
            self._wake.set()
        elif item.kind == "voice" and (voice := self.voice_of(item.data["conversation_id"])) is not None:
            voice.repeat()
