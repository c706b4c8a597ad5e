"""What an attempt emits, on its way into the log: what tools report is paced, and all is packed into messages.

Nobody can use more than a few reports a second, and who reports them may be anybody's server. So a text is cut, of
reports that come too fast the latest one is kept until there is room for it, and an attempt has an allowance for all.
The last report of a call is always emitted.

If events are too large for one message, they are split over several. An event that is too large by itself, or cannot be
encoded as JSON, is sent without its data. It must not be dropped: it has a number already, and a missing number would
be a gap for every reader.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic_core import to_json

from pallas_bus.errors import too_large
from pallas_contracts.turns import (
    Answered,
    AnyEvent,
    InputRequired,
    KnownEvent,
    LogEvent,
    LogMessage,
    Progress,
    Result,
    ToolCompleted,
    ToolFailed,
    ToolProgress,
    ToolStarted,
)
from pallas_contracts.valid import valid_text


class Emitter(Protocol):
    """Publishes the events of a turn. It sets `seq` and `at`; runtimes leave them alone."""

    def emit(self, event: KnownEvent) -> None:
        """Publish an event without waiting. Never fails."""
        ...

    async def tool_starting(self, event: ToolStarted) -> None:
        """Publish that a tool is about to be called, and wait until that is stored. Then call the tool.

        Raises:
            Superseded: this attempt has been superseded or cancelled; the tool must not be called.
        """
        ...

    async def answered(self, event: Answered) -> bool:
        """Publish what a call answered. Waits only if the answer is large. False: later attempts will not have it."""
        ...


log = logging.getLogger(__name__)

LONGEST_REPORT = 2_000
"""Characters of the text of a report."""

BURST, PER_SECOND = 30.0, 5.0
"""Reports of a call that may come at once, and how many more in a second."""

ALLOWANCE = 1024 * 1024
"""Bytes of all reports and log messages of an attempt. Later reports have no text; later log messages are left out."""

LAST_PAUSE = 30.0
"""Seconds between two reports of a call when the allowance is used up."""

_OVERHEAD = 200
"""Bytes of an event besides its text."""

type _Report = ToolProgress | Progress


@dataclass(slots=True)
class _Source:
    """The reports of one call. `waiting` is the latest one that was not emitted."""

    left: float = BURST
    at: float = field(default_factory=time.monotonic)
    waiting: _Report | None = None
    timer: asyncio.TimerHandle | None = None

    def take(self, rate: float) -> bool:
        """Whether a report may be emitted now."""
        now = time.monotonic()
        self.left, self.at = min(BURST, self.left + (now - self.at) * rate), now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class PacedEvents:
    """The emitter of one attempt for its runtime. All other events pass at once."""

    def __init__(self, inner: Emitter) -> None:
        self._inner = inner
        self._sources: dict[str, _Source] = {}
        self._left = ALLOWANCE

    def emit(self, event: KnownEvent) -> None:
        """Publish an event without waiting. Never fails."""
        match event:
            case ToolProgress(call=call):
                self._report(call, event)
            case Progress():
                self._report("", event)
            case LogMessage():
                self._log(event)
            case ToolCompleted(call=call) | ToolFailed(call=call):
                self._end(call)
                self._inner.emit(event)
            case _:
                self._inner.emit(event)

    async def tool_starting(self, event: ToolStarted) -> None:
        """Publish the start of a tool (see `Emitter`)."""
        await self._inner.tool_starting(event)

    async def answered(self, event: Answered) -> bool:
        """Publish an answer (see `Emitter`)."""
        return await self._inner.answered(event)

    def end(self) -> None:
        """The attempt is over: publish what waits."""
        for call in list(self._sources):
            self._end(call)

    def _report(self, call: str, report: _Report) -> None:
        source = self._sources.setdefault(call, _Source())
        rate = PER_SECOND if self._left > 0 else 1 / LAST_PAUSE
        if source.take(rate):
            source.waiting = None
            self._store(report)
            return
        source.waiting = report
        if source.timer is None:
            source.timer = asyncio.get_running_loop().call_later(1 / rate, self._retry, call)

    def _retry(self, call: str) -> None:
        source = self._sources[call]
        waiting, source.waiting, source.timer = source.waiting, None, None
        if waiting is not None:
            self._report(call, waiting)

    def _end(self, call: str) -> None:
        source = self._sources.pop(call, None)
        if source is not None and source.timer is not None:
            source.timer.cancel()
        if source is not None and source.waiting is not None:
            self._store(source.waiting)

    def _store(self, report: _Report) -> None:
        text = report.message
        if text is not None:
            text = valid_text(text if len(text) <= LONGEST_REPORT else f"{text[: LONGEST_REPORT - 1]}…")
        if not self._spend(len(text or "")):
            text = None
        self._inner.emit(report if text == report.message else report.model_copy(update={"message": text}))

    def _log(self, event: LogMessage) -> None:
        try:
            size = len(to_json(event.data))
        except ValueError:  # its data is left out where it is written
            size = 0
        if self._spend(size):
            self._inner.emit(event)

    def _spend(self, size: int) -> bool:
        """Whether the allowance covers an event with a text of this size."""
        before, self._left = self._left, self._left - _OVERHEAD - size
        if self._left <= 0 < before:
            log.warning("progress and log messages are left out: the turn has reported too much")
        return self._left > 0


LEFT_OUT = "[left out: too large, or no JSON]"
_MOST = 1000
"""Characters that are kept of a text in an event that is too large."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The events of one message, and its payload. `is_content`: it has a time to live, as all of its events have."""

    events: list[AnyEvent]
    payload: bytes
    is_content: bool


def batches(events: list[AnyEvent], write: Callable[[list[AnyEvent]], bytes], most: int) -> list[Batch]:
    """Pack the events, in order, into as few messages as possible of at most `most` bytes; `write` encodes events.

    Raises:
        Rejected: an answer is larger than that by itself (`too_large`). It cannot be sent without its data.
    """
    if not events:
        return []
    is_content = not isinstance(events[0], LogEvent)
    try:
        payload = write(events)
    except ValueError:  # pydantic raises it for a value that is not JSON, and for half of a surrogate pair
        payload = None
    if payload is not None and len(payload) <= most:
        return [Batch(events, payload, is_content)]
    if len(events) == 1:
        light = [lightened(events[0])]
        return [Batch(light, write(light), is_content)]
    middle = len(events) // 2
    return batches(events[:middle], write, most) + batches(events[middle:], write, most)


def lightened(event: AnyEvent) -> AnyEvent:
    """The event without the data that may be at fault, marked by `LEFT_OUT`; raises as `batches` does."""
    if isinstance(event, Result | InputRequired):
        raise too_large("write the turn's answer")
    log.warning(
        "an event could not be encoded and is published without its data", extra={"event": event.type, "seq": event.seq}
    )
    if isinstance(event, Answered):
        return event.model_copy(update={"answer": None})
    return event.model_copy(update={name: _light(value) for name, value in event})


def _light(value: Any) -> Any:
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            whole = value.encode("utf-8", "replace").decode()
            return whole if len(whole) <= _MOST else f"{whole[:_MOST]} {LEFT_OUT}"
        case dict():
            return {"left_out": LEFT_OUT}
        case _:
            return LEFT_OUT
