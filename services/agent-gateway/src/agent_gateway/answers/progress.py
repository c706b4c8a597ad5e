"""Progress messages in the patterns of the interface contract (section 5), with the numbers each era needs.

The handshake era gets the contract's numbers: 0 at a start, the step's number at a step, 1 of 1 at an end. The modern
era requires numbers that only grow, so there they are a counter. A function's own progress is passed on unchanged.
"""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pallas_bus.turnlog.cursor import BEGINNING, Cursor
from pallas_calls.observer import Observer
from pallas_contracts.turns import (
    LOG_LEVELS,
    Continued,
    LogMessage,
    Progress,
    Step,
    ToolCompleted,
    ToolFailed,
    ToolProgress,
    ToolStarted,
)

type Report = Callable[[float, float | None, str | None], Awaitable[None]]
type WriteLog = Callable[[LogMessage], Awaitable[None]]


def wanted_levels(least: str | None, *, modern: bool) -> frozenset[str]:
    """The levels of log messages to pass on: `least` and above.

    Without a level the modern era sends no log messages, and the handshake era sends all.
    """
    if least is None:
        return frozenset() if modern else frozenset(LOG_LEVELS)
    return frozenset(LOG_LEVELS[LOG_LEVELS.index(least) :]) if least in LOG_LEVELS else frozenset()


@dataclass(frozen=True, slots=True)
class Line:
    """One progress notification with the contract's values."""

    progress: float
    total: float | None
    message: str | None


def line_of(event: object) -> Line | None:
    """The notification for an event, or None when it is not progress."""
    match event:
        case ToolStarted():
            return Line(0, None, f"{event.server}/{event.tool}: started")
        case ToolCompleted():
            return Line(1, 1, f"{event.server}/{event.tool}: completed")
        case ToolFailed():
            return Line(1, 1, f"{event.server}/{event.tool}: failed")
        case Step():
            return Line(event.n, None, f"{event.agent} step {event.n} ({event.kind})")
        case ToolProgress():
            return Line(0, None, f"{event.server}/{event.tool}: {_text(event)}")
        case Progress():
            return Line(event.progress, event.total, event.message)
        case _:
            return None


def _text(progress: ToolProgress) -> str:
    if progress.message:
        return progress.message
    return f"{progress.progress:g}" if progress.total is None else f"{progress.progress:g} of {progress.total:g}"


@dataclass
class ProgressObserver(Observer):
    """Sends progress and log messages to one caller. `report` and `write_log` send on the stream of the call."""

    agent: str
    modern: bool
    report: Report | None
    write_log: WriteLog
    listens: bool = True
    left: Callable[[], bool] = lambda: False
    _last: float = -math.inf

    def caller_left(self) -> bool:
        """Whether a cancelled call means that its caller left."""
        return self.left()

    async def on_event(self, event: object, cursor: Cursor = BEGINNING, /) -> None:
        """Pass on log messages and progress. That a later attempt goes on is no pattern of the handshake eras."""
        if isinstance(event, LogMessage):
            await self.write_log(event)
        elif isinstance(event, Continued):
            if self.modern:
                text = f"{self.agent} continues (attempt {cursor.attempt}, step {event.n})"
                await self._send(Line(0, None, text), own=False)
        elif (line := line_of(event)) is not None:
            await self._send(line, own=isinstance(event, Progress))

    async def on_queued(self, ahead: int) -> None:
        """Report how many turns are in front."""
        await self._send(Line(0, None, f"{self.agent} queued: {ahead} ahead"), own=False)

    async def on_attempt(self, attempt: int) -> None:
        """Report that the turn is executed again from its beginning."""
        await self._send(Line(0, None, f"{self.agent} attempt {attempt}: taken up again"), own=False)

    async def _send(self, line: Line, *, own: bool) -> None:
        if self.report is None:
            return
        if not self.modern:
            await self.report(line.progress, line.total, line.message)
        elif own and line.progress > self._last:
            self._last = line.progress
            await self.report(line.progress, line.total, line.message)
        else:
            self._last = max(self._last, 0.0) + 1
            await self.report(self._last, None, line.message)
