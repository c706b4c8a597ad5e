"""Calls the agent for one reply, until there is an answer or no hope of one.

A call is repeated only under its key, at agents that keep keys, or if it cannot have arrived. So nothing happens twice.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from sqlalchemy import Row
from sqlalchemy.ext.asyncio import AsyncEngine

from pallas_bus.errors import is_cancelled
from pallas_contracts.errors import NotFound, PallasError, Unavailable
from pallas_mcp_calls.model import CallAnswer, CallFailed, Progress, Question, Reply, Target, TextDelta
from pallas_postgres.engine import reading
from workspaces.agents.start import Agents
from workspaces.chat.concluding import Concluding
from workspaces.chat.history import halve
from workspaces.chat.images import pictures_in
from workspaces.chat.model import INTERRUPTED, Claim, Ending
from workspaces.chat.partial import Partial
from workspaces.chat.stored import read_arguments, read_entries
from workspaces.chat.views import RUNNING

log = logging.getLogger(__name__)

UNSENT_SECONDS = 10.0
"""How long an agent is tried that has not got the call."""
LOST_SECONDS = 120.0
"""How long an answer is tried to get that was lost on its way."""
BUSY_SECONDS = 30.0
CANCEL_SECONDS = 10.0
"""How long an agent is tried that is to end a call. It ends calls that nobody follows by itself, only later."""
_INTERRUPTED = (
    "The connection to the agent was lost while it worked. It may have done what it was asked. Check before you retry."
)
_TRYING = "The connection to the agent was lost. Trying again."


_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
_WELL_SECONDS = 5.0
"""An attempt that lasted as long had reached the other end, so its failure is a new one."""


class Call:
    """The call for a reply, while it runs. `task` is set by who starts it.

    `movable`: another replica can go on with it, because the call was not made or can be repeated under its key.
    """

    def __init__(self, claim: Claim, partial: Partial, concluding: Concluding) -> None:
        self.claim = claim
        self.partial = partial
        self.task: asyncio.Task[None] | None = None
        self.movable = True
        self._concluding = concluding
        self._answers = dict(claim.answers)
        self._answered = asyncio.Condition()
        self._one_question = asyncio.Lock()

    def is_wanted(self, row: Row[Any]) -> bool:
        """Whether the reply waits for this call: one that cannot be repeated also if its replica was given up."""
        running = row.status in RUNNING
        waits = not self.movable and row.key == self.claim.key and (running or row.error_code == INTERRUPTED)
        return waits or (running and row.attempt == self.claim.attempt)

    async def ask(self, question: Question) -> Reply:
        """Ask the person, one question at a time. A question that was answered before is not asked again."""
        async with self._one_question:
            if question.id not in self._answers:
                try:
                    known = await with_postgres(lambda: self._concluding.ask(self.claim, question), "ask the person")
                except NotFound:
                    await asyncio.Event().wait()  # the reply is another replica's: the next look cancels the call
                    raise
                if known is not None:
                    self._answers[question.id] = known
            async with self._answered:
                await self._answered.wait_for(lambda: question.id in self._answers)
        answer = self._answers[question.id]
        return Reply(answer["action"], answer["content"])

    async def hear(self, answers: dict[str, Any]) -> None:
        """Take the person's answers, by question."""
        async with self._answered:
            self._answers |= answers
            self._answered.notify_all()

    @property
    def is_ending(self) -> bool:
        """Whether the call was cancelled. A second cancel would end what the first one has to do."""
        return self.task is not None and self.task.cancelling() > 0

    def cancel(self) -> None:
        """End the call."""
        if self.task is not None and not self.is_ending:
            self.task.cancel()


class Interrupted(Exception):
    """The agent may have done the work, and cannot be asked for the answer."""


@dataclass
class Replying:
    """Calls agents for replies."""

    engine: AsyncEngine
    agents: Agents
    concluding: Concluding

    async def reply(self, call: Call) -> Ending:
        """Call the agent. Returns how the reply has ended."""
        claim = call.claim
        try:
            target = await with_postgres(lambda: self._target(claim), "find the agent")
            answer = await self._answer(claim, target, call)
            if answer.failed and answer.code == "context_overflow" and (shorter := await self._shorter(claim)):
                call.claim = shorter
                await call.partial.on_text(TextDelta("", restarted=True))
                answer = await self._answer(shorter, target, call)
        except NotFound:
            return Ending("failed", error_code="agent_gone", error="This agent is not registered any more.")
        except PallasError as error:
            return Ending("failed", error_code=error.code, error=_sentence(error.message))
        except CallFailed as error:
            return Ending("failed", error_code=error.code, error=_sentence(str(error)))
        except Interrupted:
            return Ending("failed", error_code=INTERRUPTED, error=_INTERRUPTED)
        if not answer.failed:
            pictures, text = (
                await asyncio.to_thread(pictures_in, answer.images, answer.text) if answer.images else ((), answer.text)
            )
            return Ending("answered", text, turn_id=answer.turn_id, pictures=pictures)
        return Ending("failed", "", answer.code or "agent_error", _in_words(answer), answer.turn_id)

    async def cancel(self, claim: Claim) -> None:
        """Cancel the call for a reply at the agent, whichever replica has made it."""
        tries, trying = Tries(), True
        answers = {name: Reply(one["action"], one["content"]) for name, one in claim.answers.items()}
        while trying:
            try:
                target = await self.agents.targets.target_of(claim.instance_id, claim.server_id)
                calls = await self.agents.calls()
                answer = await calls.cancel(target, None, agent=claim.server_id, key=claim.key, answers=answers)
                trying = answer is not None and answer.code == "busy"
            except (CallFailed, PallasError) as error:
                log.info("a call is not cancelled yet", extra={"reply": claim.reply_id, "reason": error.code})
                trying = isinstance(error, Unavailable) or (isinstance(error, CallFailed) and error.lost)
            trying = trying and await tries.again(CANCEL_SECONDS)

    async def _target(self, claim: Claim) -> Target:
        """Where the agent is, and its bearer."""
        if claim.address is not None:
            return self.agents.targets.target_at(claim.address)
        return await self.agents.targets.target_of(claim.instance_id, claim.server_id)

    async def _answer(self, claim: Claim, target: Target, call: Call) -> CallAnswer:
        """Call the agent, again where that is safe.

        Raises:
            CallFailed: it was not reached, or refused the call.
            Interrupted: it may have done the work, and cannot be asked for the answer.
        """
        arguments = claim.arguments
        if arguments is None:
            arguments = await with_postgres(lambda: read_arguments(self.engine, claim), "read the history")
        tries, called = Tries(), claim.called != "never"
        keeps: bool | None = None
        while True:
            called_before = called
            try:
                calls = await self.agents.calls()
                keeps = keeps or await calls.keeps_keys(target)
                if (called and not keeps) or _is_another_call(claim, target):
                    raise Interrupted
                called, call.movable = True, keeps
                answer = await self._call(claim, target, arguments, call)
            except CallFailed as error:
                if is_cancelled():
                    raise asyncio.CancelledError from error
                if not error.lost:
                    raise
                called = called if error.sent else called_before
                if called and keeps is False:
                    raise Interrupted from error
                log.info("the agent was not reached", extra={"reply": claim.reply_id, "reason": error.code})
                await call.partial.on_progress(Progress(0, None, _TRYING))
                if not await tries.again(LOST_SECONDS if called else UNSENT_SECONDS):
                    if called and error.code == "unreachable":  # now, but an earlier try has arrived
                        raise CallFailed(str(error), code="connection_lost", lost=True) from error
                    raise
            else:
                busy = answer.failed and answer.code == "busy"
                if not busy or not await tries.again(BUSY_SECONDS, pause=max(answer.retry_after or 0, 0.5)):
                    return answer

    async def _call(self, claim: Claim, target: Target, arguments: dict[str, Any], call: Call) -> CallAnswer:
        calls = await self.agents.calls()
        return await calls.call(
            target,
            None,
            arguments,
            agent=claim.server_id,
            key=claim.key,
            on_progress=call.partial.on_progress,
            on_text=call.partial.on_text,
            on_question=call.ask,
        )

    async def _shorter(self, claim: Claim) -> Claim | None:
        """The same with half of the history, as another call; None: there is nothing to leave out."""

        async def begin_anew() -> Claim | None:
            async with reading(self.engine) as session:
                with_images = claim.plan.images is not None
                entries = await read_entries(session, claim.conversation_id, claim.seq - 1, images=with_images)
            plan = halve(entries, claim.plan)
            if plan is None:
                return None
            return await self.concluding.begin_anew(replace(claim, key=str(uuid4()), plan=plan))

        return await with_postgres(begin_anew, "leave out half of the history")


def _is_another_call(claim: Claim, target: Target) -> bool:
    """Whether the key may name no turn by now. Without a token callers are known by their addresses."""
    return claim.called == "long ago" or (claim.called == "elsewhere" and target.token is None)


def _in_words(answer: CallAnswer) -> str:
    """Why an agent has failed, without the code and the id of the turn, which are known besides."""
    text = answer.text.removeprefix(f"{answer.code}: ").removesuffix(f" (turn {answer.turn_id})").strip()
    return _sentence(text) if text else "The agent failed and did not say why."


def _sentence(text: str) -> str:
    """A reason as a sentence."""
    return f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "!", "?")) else ".")


class Tries:
    """Attempts at one thing."""

    def __init__(self) -> None:
        self._failures = 0
        self._since = self._attempt = time.monotonic()

    async def again(self, within: float, pause: float | None = None) -> bool:
        """Wait before the next attempt. False: it has failed for longer than `within` seconds."""
        now = time.monotonic()
        if now - self._attempt > _WELL_SECONDS:
            self._failures, self._since = 0, now
        pause = _PAUSES[min(self._failures, len(_PAUSES) - 1)] if pause is None else pause
        if now + pause - self._since > within:
            return False
        self._failures += 1
        await asyncio.sleep(pause)
        self._attempt = time.monotonic()
        return True


async def with_postgres[T](attempt: Callable[[], Awaitable[T]], what: str) -> T:
    """What `attempt()` returns. It is made again for as long as Postgres cannot be used."""
    failures = 0
    while True:
        try:
            return await attempt()
        except Unavailable as error:
            if is_cancelled():
                raise asyncio.CancelledError from error
            if not failures:
                log.warning("Postgres cannot be used; trying again", extra={"work": what, "reason": error.code})
        await asyncio.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
        failures += 1
