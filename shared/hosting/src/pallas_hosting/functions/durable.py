"""What a function does once per turn, also when its worker is lost: its steps. Their answers are in the journal.

Steps are numbered in the order in which they are called, those inside step `2` are `2.1`, `2.2` and so on. So a later
attempt has to call them in the same order. One that finds another step in a place cannot go on.
"""

import asyncio
import json
import logging
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from pallas_bus.errors import is_cancelled
from pallas_contracts.agents import JsonObject
from pallas_contracts.bounds import LONGEST_NAME
from pallas_contracts.errors import Superseded
from pallas_contracts.turns import Answered, ToolCompleted, ToolFailed, ToolStarted
from pallas_hosting.redact import redact
from pallas_turns.events import Emitter
from pallas_turns.runtime import JournalUnusable, Steps

log = logging.getLogger(__name__)


class Outside(Protocol):
    """The downstream servers and agents of one turn. `started` names the call; errors are raised as `StepFailed`."""

    async def may_repeat(self, server: str, tool: str) -> bool:
        """Whether the tool may be called again after a worker was lost."""
        ...

    async def call_tool(self, started: ToolStarted, arguments: JsonObject) -> JsonObject:
        """Call a tool and return the MCP result; its progress is emitted."""
        ...

    async def call_agent(self, started: ToolStarted, message: str) -> str:
        """Run an agent in this turn and return its answer."""
        ...


class NothingOutside:
    """The outside of an agent whose functions call no servers and agents."""

    def __init__(self, *_: object) -> None: ...

    async def may_repeat(self, server: str, tool: str) -> bool:
        """No tool may be called."""
        return False

    async def call_tool(self, started: ToolStarted, arguments: JsonObject) -> JsonObject:
        """There is none."""
        raise StepFailed("unknown_server", f"there is no server {started.server!r}")

    async def call_agent(self, started: ToolStarted, message: str) -> str:
        """There is none."""
        raise StepFailed("unknown_agent", f"there is no agent {started.server!r}")


class _Places:
    """Numbers the steps of a function, or those inside a step."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._last = 0

    def take(self) -> str:
        self._last += 1
        return f"{self._prefix}{self._last}"


_inside: ContextVar[_Places | None] = ContextVar("the step whose function runs", default=None)


class DurableSteps:
    """The steps of one attempt at one turn of `agent`. If that is `safe`, its steps and side effects are by default."""

    def __init__(self, agent: str, steps: Steps, emit: Emitter, outside: Outside, *, safe: bool) -> None:
        self._agent = agent
        self._safe = safe
        self._ended = False
        self._steps = steps
        self._emit = emit
        self._outside = outside
        self._places = _Places()

    def take(self) -> str:
        """The place of the next step. It is taken when a step is called, not when its coroutine begins to run."""
        return (_inside.get() or self._places).take()

    def end(self) -> None:
        """The function has ended, and no further step begins. Raises as `Steps.check_all_taken` does."""
        self._ended = True
        self._steps.check_all_taken()

    async def run(
        self,
        place: str,
        name: str,
        function: Callable[[], Awaitable[Any]],
        *,
        retry: Literal["unsafe", "safe"] | None = None,
    ) -> Any:
        """Run a function, whose result must be JSON."""
        safe = self._safe if retry is None else retry == "safe"
        _check_name(name)

        async def work() -> Any:
            outer = _inside.set(_Places(f"{place}."))
            try:
                return await function()
            finally:
                _inside.reset(outer)

        started = ToolStarted(call=place, server=self._agent, tool=name, safe=safe)
        return await self._once(started, f"step {name}", work)

    async def call_tool(self, place: str, server: str, tool: str, arguments: JsonObject) -> JsonObject:
        """Call a tool of a downstream server."""
        _check_name(server)
        _check_name(tool)
        basis = f"tool {server}/{tool}"
        safe = self._taken_over(place, basis) is not None or await self._outside.may_repeat(server, tool)
        started = ToolStarted(call=place, server=server, tool=tool, safe=safe)
        return await self._once(
            started,
            basis,
            lambda: self._outside.call_tool(started, arguments),
            lambda result: bool(result.get("isError")),
        )

    async def call_agent(self, place: str, name: str, message: str) -> str:
        """Run an agent, whose calls have answers of their own in the journal."""
        _check_name(name)
        started = ToolStarted(call=place, server=name, tool=f"{name}__{name}", leaf=False)
        return await self._once(started, f"agent {name}", lambda: self._outside.call_agent(started, message))

    def now(self) -> datetime:
        """The time, as the first attempt that asked for it got it."""
        return datetime.fromisoformat(self._value("now", lambda: datetime.now(UTC).isoformat()))

    def random(self) -> float:
        """A random number, as the first attempt that asked for it got it."""
        return self._value("random", random.random)

    async def side_effect(self, name: str) -> None:
        """Record that something begins whose end is not recorded."""
        _check_name(name)
        place = self.take()
        self._taken_over(place, f"side effect {name}")
        self._begin(place)
        self._steps.hold()
        await self._steps.tool_starting(ToolStarted(call=place, server=self._agent, tool=name, safe=self._safe))

    async def _once(
        self,
        started: ToolStarted,
        basis: str,
        work: Callable[[], Awaitable[Any]],
        is_error: Callable[[Any], bool] = lambda _result: False,
    ) -> Any:
        """The answer of the journal, or of `work`, which is then recorded. Either is read from the same JSON.

        Raises:
            StepFailed: `work` raised an exception.
            Superseded: the attempt has been superseded.
            JournalUnusable: something else was called here in an earlier attempt.
        """
        if (answer := self._taken_over(started.call, basis)) is not None:
            return await read_taken_over(answer)
        self._begin(started.call)
        async with self._steps.under_way(safe=started.safe) if started.leaf else nullcontext():
            await self._start(started)
            began, code, cause = time.perf_counter(), None, None
            try:
                result = await work()
                answer = written_result(started.tool, result)
                code = "tool_error" if is_error(result) else None
            except (Superseded, JournalUnusable):
                raise
            # Whatever it is, later attempts must see the same.
            except (Exception, SystemExit, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and is_cancelled():
                    self._cancelled(started, basis, began)
                    raise
                failed = failure_of(error)
                answer, code, cause = written_failure(failed), failed.kind, error
            self._report(started, began, code)
            await self._steps.record(started.call, basis, answer)
        return read_answer(answer, cause)

    def _cancelled(self, started: ToolStarted, basis: str, began: float) -> None:
        """Record that the function has cancelled the step, as a time limit does. Else the attempt is cancelled."""
        if not self._steps.ending:
            self._report(started, began, "cancelled")
            self._emit.emit(Answered(call=started.call, basis=basis, answer=CANCELLED))

    async def _start(self, started: ToolStarted) -> None:
        if started.leaf:
            await self._steps.tool_starting(started)
        else:
            self._emit.emit(started)

    def _report(self, started: ToolStarted, began: float, code: str | None) -> None:
        took = round((time.perf_counter() - began) * 1000, 3)
        call, server, tool = started.call, started.server, started.tool
        if code is None:
            self._emit.emit(ToolCompleted(call=call, server=server, tool=tool, duration_ms=took))
        else:
            self._emit.emit(ToolFailed(call=call, server=server, tool=tool, duration_ms=took, code=code))

    def _value(self, kind: str, make: Callable[[], Any]) -> Any:
        place = self.take()
        if (answer := self._taken_over(place, kind)) is None:
            self._begin(place)
            answer = written_result(kind, make())
            self._emit.emit(Answered(call=place, basis=kind, answer=answer))
        return read_answer(answer)

    def _taken_over(self, place: str, basis: str) -> str | None:
        """The answer of an earlier attempt. Once the journal was found unusable, no further step is made."""
        self._steps.check_usable()
        if self._ended:
            raise RuntimeError("the function has ended: it must wait for all its steps")
        return self._steps.answer(place, basis)

    def _begin(self, place: str) -> None:
        self._steps.begin(int(place.partition(".")[0]))


def _check_name(name: str) -> None:
    if not (0 < len(name) <= LONGEST_NAME and name.isprintable()):
        raise ValueError(f"a name has 1 to {LONGEST_NAME} printable characters: {name[:LONGEST_NAME]!r}")


CANCELLED = '{"cancelled": true}'
"""The answer of a step that its function has cancelled."""


class StepFailed(Exception):
    """A step failed, in this attempt or in an earlier one.

    `kind` is the name of the exception of its function, or a code: `unreachable` and `tool_error` of a tool, the code
    of the failure of an agent. Credentials and addresses are removed from `message`.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


def written_result(name: str, result: object) -> str:
    """The answer of a step that has returned.

    Raises:
        TypeError: the result is no JSON.
    """
    try:
        return json.dumps({"result": result}, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"the result of step {name!r} is no JSON: {error}") from error


def written_failure(failed: StepFailed) -> str:
    """The answer of a step that has failed."""
    return json.dumps({"error": {"type": failed.kind, "message": failed.message}})


def failure_of(error: BaseException) -> StepFailed:
    """The failure of a step whose function raised `error`."""
    if isinstance(error, StepFailed):
        return error
    try:
        text = str(error)
    except Exception as unreadable:
        log.exception("the text of an exception cannot be read")
        text = f"{type(unreadable).__name__} in its text"
    return StepFailed(type(error).__name__, redact(text))


def read_answer(answer: str, cause: BaseException | None = None) -> Any:
    """The result of a step.

    Raises:
        StepFailed: the step failed; `cause` is the exception, if it was in this attempt.
    """
    read = json.loads(answer)
    if (error := read.get("error")) is not None:
        raise StepFailed(error["type"], error["message"]) from cause
    return read["result"]


async def read_taken_over(answer: str) -> Any:
    """As `read_answer`; waits for ever if the step was cancelled: what cancelled it does so again."""
    if answer == CANCELLED:
        await asyncio.get_running_loop().create_future()
    return read_answer(answer)
