"""Progress in the patterns of the interface contract (section 5), with the values each era wants.

Handshake eras get the contract's own numbers: 0 at a start, the step's number at a step, 1 of 1 at an end. The modern
era demands values that only grow, so there they are a counter; a function's own progress is passed on as it is.
"""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pallas_bus.turnlog.cursor import BEGINNING, Cursor
from pallas_calls.observer import Observer
from pallas_contracts.turns import LogMessage, Progress, Step, ToolCompleted, ToolFailed, ToolProgress, ToolStarted

type Report = Callable[[float, float | None, str | None], Awaitable[None]]
type WriteLog = Callable[[LogMessage], Awaitable[None]]

# The order of RFC 5424, which MCP's log levels are.
_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def wanted_levels(least: str | None, *, modern: bool) -> frozenset[str]:
    """The levels of log messages to pass on: `least` and above.

    To a caller that has not said a level the modern era sends nothing, and the others everything.
    """
    if least is None:
        return frozenset() if modern else frozenset(_LEVELS)
    return frozenset(_LEVELS[_LEVELS.index(least) :]) if least in _LEVELS else frozenset()


@dataclass(frozen=True, slots=True)
class Line:
    """One progress notification with the contract's values."""

    progress: float
    total: float | None
    message: str | None


def line_of(said: object) -> Line | None:
    """The notification for an event, or None when it is not progress."""
    match said:
        case ToolStarted():
            return Line(0, None, f"{said.server}/{said.tool}: started")
        case ToolCompleted():
            return Line(1, 1, f"{said.server}/{said.tool}: completed")
        case ToolFailed():
            return Line(1, 1, f"{said.server}/{said.tool}: failed")
        case Step():
            return Line(said.n, None, f"{said.agent} step {said.n} ({said.kind})")
        case ToolProgress():
            return Line(0, None, f"{said.server}/{said.tool}: {_text(said)}")
        case Progress():
            return Line(said.progress, said.total, said.message)
        case _:
            return None


def _text(said: ToolProgress) -> str:
    if said.message:
        return said.message
    return f"{said.progress:g}" if said.total is None else f"{said.progress:g} of {said.total:g}"


@dataclass
class ProgressObserver(Observer):
    """Tells one caller of its turn. `modern` is the era; `report` and `write_log` send on the call's own stream."""

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

    async def on_event(self, said: object, _cursor: Cursor = BEGINNING, /) -> None:
        """Pass an event on, if it is of interest."""
        if isinstance(said, LogMessage):
            await self.write_log(said)
        elif (line := line_of(said)) is not None:
            await self._send(line, own=isinstance(said, Progress))

    async def on_queued(self, ahead: int) -> None:
        """Say how many turns are in front."""
        await self._send(Line(0, None, f"{self.agent} queued: {ahead} ahead"), own=False)

    async def on_attempt(self, attempt: int) -> None:
        """Say that the turn is executed once more."""
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
