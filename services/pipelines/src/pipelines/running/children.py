"""Makes the turns of the calls inside one execution.

The id of such a turn follows from the parent, the place of the call in the program, and the number of the try. So an
attempt that takes an execution over finds the turns of the attempts before it: it reads the answers that are in the
journal, joins the turns that run, and makes those that were never made.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from pydantic_core import to_json

from pallas_bus.errors import retry_while_unavailable
from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import PallasError, Superseded
from pallas_contracts.ids import child_id
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Result, ToolCompleted, ToolFailed, ToolStarted, TurnError, TurnRequested
from pallas_cst.values import size_of
from pallas_cst.work import LARGE
from pallas_turns.calls import Calls
from pallas_turns.cancel import first_cancel
from pallas_turns.claims import TurnRef
from pallas_turns.events import Emitter
from pallas_turns.keys import call_child
from pallas_turns.model import Observer, Refusal, TurnEnd
from pallas_turns.runtime import Completed, Failed, JournalUnusable, Outcome, Steps, Turn
from pipelines.modules.catalogue import Catalogue
from pipelines.modules.module import Module
from pipelines.running.answers import Answer, Failure, answer_of, read, refused, written
from pipelines.storing.scopes import Scope, Scopes

log = logging.getLogger(__name__)

START = "0"
"""The place in the journal of what an execution starts from."""
_LONGEST_TEXT = 2**20
_CODES: dict[str, TurnError] = {
    "node_failed": "node_failed",
    "suspended_too_large": "suspended_too_large",
    "resume_in_progress": "resume_in_progress",
    "unavailable": "internal",
}
"""The code of a failed turn by that of the error; `invalid_arguments` otherwise."""


@dataclass(frozen=True)
class Attempt:
    """One attempt at one execution."""

    turn: Turn
    steps: Steps
    emit: Emitter


async def attempted(turn: Turn, emit: Emitter, scopes: Scopes, run: Callable[[Attempt], Awaitable[Outcome]]) -> Outcome:
    """The outcome of `run`, or the failure that its exception stands for. The caller needs the scope `execute`."""
    if turn.model is not None:
        return Failed("unknown_model", "A pipeline has no model that another could stand in for.")
    try:
        scopes.check(turn.principal, Scope.EXECUTE)
        return await run(Attempt(turn, Steps(turn, emit), emit))
    except Superseded:
        raise
    except JournalUnusable as error:
        log.warning("the journal cannot be used", extra={"reason": error.reason})
        message = f"The execution cannot go on where it stopped: {error.reason}. Check before you retry."
        return Failed("worker_lost", message)
    except PallasError as error:
        return Failed(_CODES.get(error.code, "invalid_arguments"), error.message)


async def started(steps: Steps, basis: str, find: Callable[[], Awaitable[str]]) -> str:
    """What an execution starts from: found once, and taken from the journal by later attempts."""
    if (known := steps.answer(START, basis)) is not None:
        return json.loads(known)
    found = await retry_while_unavailable(find, "find what the execution starts from", deadline=None)
    await steps.record(START, basis, json.dumps(found))
    return found


def completed(answer: JsonObject) -> Completed:
    """An answer of a tool: as an object, and as text for clients that read no objects, unless it is very long."""
    small = size_of(answer, LARGE) < LARGE
    text = json.dumps(answer, ensure_ascii=False) if small else to_json(answer).decode()  # ten times as fast
    if len(text) > _LONGEST_TEXT:
        text = f"The answer has {len(text)} characters of JSON: see structuredContent."
    return Completed(Result(content=({"type": "text", "text": text},), structured=answer))


MOST_DEPTH = 8
"""Turns above a turn: pipelines that call pipelines."""

_LEAST_PAUSE = 0.1


class _Parent(Observer):
    """The execution as the caller of a child: it leaves unless the attempt is being ended from outside."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def caller_left(self) -> bool:
        """Whether the call was given up. A cancelled execution ends its children, a superseded one does not."""
        return not self._steps.ending

    def why_left(self) -> str:
        """The reason of the cancel."""
        return "the pipeline does not wait for it any more"


@dataclass(frozen=True)
class Children:
    """The calls of one attempt at one execution.

    `prior` has the answers of an execution that was suspended, by call. With `suspends`, `answers` collects those of
    this attempt.
    """

    attempt: Attempt
    calls: Calls
    catalogue: Catalogue
    prior: Mapping[str, str] = field(default_factory=dict[str, str])
    suspends: bool = False
    answers: dict[str, str] = field(default_factory=dict[str, str])

    def has_answer(self, call: str, module: Module) -> bool:
        """Whether an earlier attempt, or the execution before its suspension, got an answer."""
        return call in self.prior or self.attempt.steps.answer(call, module.basis) is not None

    async def take(self, call: str, module: Module, answer: Answer) -> Answer:
        """Use an answer that was got elsewhere, and record it as the one of this call."""
        await self._record(call, module, answer)
        return answer

    async def call(self, call: str, module: Module, arguments: JsonObject, seconds: float | None) -> Answer | Failure:
        """Make one try of a call: `call` is its place and the number of the try. `seconds`: its time limit.

        Raises:
            Superseded: another attempt has taken over.
            JournalUnusable: something else was called here in an earlier attempt.
        """
        if (known := self.prior.get(call) or self.attempt.steps.answer(call, module.basis)) is not None:
            self._remember(call, known)
            return read(known)
        team, agent, tool = module.definition.team, module.definition.agent, module.tool.name
        server = f"{team}/{agent}"
        async with self.attempt.steps.under_way(safe=True):
            started = ToolStarted(call=call, server=server, tool=tool, leaf=False, safe=module.repeatable)
            await self.attempt.steps.tool_starting(started)
        began = time.perf_counter()
        answer = await self._answered(call, module, arguments, seconds)
        took = round((time.perf_counter() - began) * 1000, 3)
        if isinstance(answer, Failure):
            failed = ToolFailed(call=call, server=server, tool=tool, duration_ms=took, code=answer.code)
            self.attempt.emit.emit(failed)
        else:
            self.attempt.emit.emit(ToolCompleted(call=call, server=server, tool=tool, duration_ms=took))
        await self._record(call, module, answer)
        return answer

    async def _record(self, call: str, module: Module, answer: Answer | Failure) -> None:
        entry = written(answer)
        self._remember(call, entry)
        await self.attempt.steps.record(call, module.basis, entry)

    def _remember(self, call: str, entry: str) -> None:
        if self.suspends:
            self.answers[call] = entry

    async def _answered(
        self, call: str, module: Module, arguments: JsonObject, seconds: float | None
    ) -> Answer | Failure:
        if self.attempt.turn.depth >= MOST_DEPTH:
            return Failure("node_failed", f"pipelines call each other more than {MOST_DEPTH} levels deep")
        answer = await self._ended(call, module, arguments, seconds)
        if isinstance(answer, Failure) and answer.unknown and await self._never_began(self._ref(call, module)):
            return replace(answer, unknown=False)
        return answer

    async def _ended(self, call: str, module: Module, arguments: JsonObject, seconds: float | None) -> Answer | Failure:
        request: TurnRequested | None = None
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                while isinstance(checked := await module.check(arguments), Refusal):
                    if checked.code != "busy":
                        return refused(checked)
                    await asyncio.sleep(_pause(checked))
                request = self._request(call, module, checked)
                end = await self._made(request, module)
        except TimeoutError:
            if not limit.expired():
                raise
            if request is not None:
                reason = "the time limit of the call in the pipeline is over"
                await self.calls.cancel(TurnRef.of(request), reason, request)
            return Failure("timeout", f"no answer within {seconds:g} s", unknown=request is not None)
        return refused(end) if isinstance(end, Refusal) else answer_of(module, end)

    async def _never_began(self, ref: TurnRef) -> bool:
        """Whether the child was cancelled before any worker had claimed it: then nobody can claim it any more."""

        async def look() -> bool:
            return await first_cancel(self.calls.bus, ref) is not None

        return await retry_while_unavailable(look, "find out whether a call began", deadline=None)

    async def _made(self, request: TurnRequested, module: Module) -> TurnEnd | Refusal:
        """The end of the child. While the agent is busy, the call waits: its time limit is the node's."""
        again = self.attempt.turn.attempt > 1
        definition = self.catalogue.definition(request.team, request.agent) or module.definition
        with self.attempt.steps.elsewhere():
            while True:
                parent = _Parent(self.attempt.steps)
                end = await call_child(self.calls, request, definition.limits, parent, again=again)
                if not isinstance(end, Refusal) or end.code != "busy":
                    return end
                again = end.turn_id is not None or again
                await asyncio.sleep(_pause(end))

    def _ref(self, call: str, module: Module) -> TurnRef:
        team, agent = module.definition.team, module.definition.agent
        return TurnRef(team, agent, child_id(self.attempt.turn.turn_id, call))

    def _request(self, call: str, module: Module, arguments: JsonObject) -> TurnRequested:
        turn_id = child_id(self.attempt.turn.turn_id, call)
        return TurnRequested(
            turn_id=turn_id,
            team=module.definition.team,
            agent=module.definition.agent,
            tool=module.tool.name,
            arguments=arguments,
            principal=self.attempt.turn.principal,
            parent=self.attempt.turn.turn_id,
            depth=self.attempt.turn.depth + 1,
            task=self.attempt.turn.task,
            client=self.attempt.turn.client.model_copy(update={"progress": False, "log_level": None}),
            digest=turn_id,
            requested_at=utc_now(),
        )


def _pause(busy: Refusal) -> float:
    return max(_LEAST_PAUSE, (busy.retry_after_ms or 0) / 1000)
