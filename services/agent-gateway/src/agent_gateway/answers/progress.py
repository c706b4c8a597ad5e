"""Progress messages in the patterns of the interface contract (section 5), with the numbers each era needs.

The handshake era gets the contract's numbers: 0 at a start, the step's number at a step, 1 of 1 at an end. The modern
era requires numbers that only grow, so there they are a counter. A function's own progress is passed on unchanged.
"""

import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pallas_contracts.turns import (
    LOG_LEVELS,
    Continued,
    LogMessage,
    Progress,
    Step,
    TextDelta,
    ToolCompleted,
    ToolFailed,
    ToolProgress,
    ToolStarted,
)
from pallas_turns.claims import BEGINNING, Cursor
from pallas_turns.model import Observer

TEXT_PREFIX = "text: "
TEXT_RESTARTED = "text restarted"
_TEXT_SECONDS = 0.05
_TEXT_CHARACTERS = 32_768
"""Pieces of text that come faster are joined, up to this length."""

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
    """Sends progress and log messages to one caller. `report` and `write_log` send on the stream of the call.

    `text`: the text of the agent's own model is sent as well, as progress that begins with `text: `.
    """

    agent: str
    modern: bool
    report: Report | None
    write_log: WriteLog
    listens: bool = True
    left: Callable[[], bool] = lambda: False
    text: bool = False
    _last: float = -math.inf
    _held: str = ""
    _text_at: float = -math.inf
    _paragraph: bool = False

    def caller_left(self) -> bool:
        """Whether a cancelled call means that its caller left."""
        return self.left()

    async def on_event(self, event: object, cursor: Cursor = BEGINNING, /) -> None:
        """Pass on log messages and progress. That a later attempt goes on is no pattern of the handshake eras."""
        if self.text:
            await self._follow_text(event)
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
        if self.text:
            await self._restart_text()

    async def flush_before(self, event: object) -> None:
        """Send text that was held back, unless the event is more of it."""
        if self._held and not isinstance(event, TextDelta):
            held, self._held, self._text_at = self._held, "", time.monotonic()
            await self._send(Line(0, None, f"{TEXT_PREFIX}{held}"), own=False)

    async def _follow_text(self, event: object) -> None:
        """Pass on the text of the agent's own model: the texts of its steps as paragraphs, as in the answer."""
        await self.flush_before(event)
        match event:
            case TextDelta(agent=self.agent, text=piece):
                self._held += f"\n\n{piece}" if self._paragraph else piece
                self._paragraph = False
                if time.monotonic() - self._text_at >= _TEXT_SECONDS or len(self._held) >= _TEXT_CHARACTERS:
                    await self.flush_before(None)
            case Step(agent=self.agent, kind="llm") if self._text_at > -math.inf:
                self._paragraph = True
            case Continued():
                await self._restart_text()
            case _:
                pass

    async def _restart_text(self) -> None:
        self._held, self._text_at, self._paragraph = "", -math.inf, False
        await self._send(Line(0, None, TEXT_RESTARTED), own=False)

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
