"""Logs: one JSON line each, or text for a terminal. Every module uses the standard library's `logging`.

`log_context(turn=…, conversation=…)` adds fields to every line written inside it, in this task and those it starts. A
line that is written within a trace has the ids of trace and span, and the turn of the trace.
Tracebacks never show values of variables, which may be content or secrets. For the same reason JSON lines show the
texts of `PallasError`s only.

The turn of a trace is its baggage (`with_turn`, `TurnBaggage`), the only baggage that is passed on.
"""

import asyncio
import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO, TypeIs, override

from opentelemetry import baggage
from opentelemetry.context import Context
from opentelemetry.propagators import textmap
from opentelemetry.trace import format_span_id, format_trace_id, get_current_span

from pallas_contracts.errors import PallasError
from pallas_contracts.ids import is_token

_QUIET = ("httpx", "httpx2", "mcp", "nats", "uvicorn.access", "uvicorn.error", "sse_starlette", "asyncio")

_OWN_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

_FOR_MACHINES = frozenset({"span"})
"""Fields that text lines leave out."""

_context: ContextVar[dict[str, object]] = ContextVar("log_context", default={})  # noqa: B039 - never changed in place


def log_context(**fields: object) -> AbstractContextManager[None]:
    """Add `fields` to every log line inside the `with` block; None values are left out."""
    return _Block({name: value for name, value in fields.items() if value is not None})


class _Block:
    """A block with further fields. A waiting call holds one, so it is smaller than a generator."""

    __slots__ = ("_fields", "_token")

    def __init__(self, fields: dict[str, object]) -> None:
        self._fields = fields

    def __enter__(self) -> None:
        self._token = _context.set(_context.get() | self._fields)

    def __exit__(self, *_: object) -> None:
        _context.reset(self._token)


def configure_logs(service: str, instance: str, level: str, style: str) -> None:
    """Send all logging of this process to standard error, as `json` or `text`, with few lines of one kind."""
    handler = LimitedHandler(sys.stderr, _about)
    handler.setFormatter(_Json(service, instance) if style == "json" else _Text())
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level]))


def _about(record: logging.LogRecord) -> tuple[object, ...]:
    """The team and the agent of a line, so that a line about each of many agents is no repetition."""
    facts = _context.get() | vars(record)
    return facts.get("team"), facts.get("agent")


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    """The fields that the trace, the context and the logging call add to a line."""
    turn = {TURN_KEYS[key]: value for key, value in turn_of().items()}
    extra = {name: value for name, value in vars(record).items() if name not in _OWN_FIELDS}
    return _trace() | turn | _context.get() | extra


def _trace() -> dict[str, str]:
    within = get_current_span().get_span_context()
    if not within.is_valid:
        return {}
    return {"trace": format_trace_id(within.trace_id), "span": format_span_id(within.span_id)}


class _Json(logging.Formatter):
    """One JSON object: `timestamp`, `level`, `logger`, `event`, `service`, `instance`, and the fields of the event."""

    def __init__(self, service: str, instance: str) -> None:
        super().__init__()
        self._who = {"service": service, "instance": instance}
        self._written = json.JSONEncoder(default=str).encode

    @override
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="microseconds")
        always: dict[str, Any] = {
            "timestamp": f"{moment.removesuffix('+00:00')}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **self._who,
        }
        line = {**always, **_facts(record), **always}
        if record.exc_info and record.exc_info[1] is not None:
            line["exception"] = discreet_traceback(record.exc_info[1])
        return self._written(line)


class _Text(logging.Formatter):
    """A line of text for a terminal."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")

    @override
    def formatMessage(self, record: logging.LogRecord) -> str:
        facts = " ".join(f"{name}={value}" for name, value in _facts(record).items() if name not in _FOR_MACHINES)
        return f"{super().formatMessage(record)} {facts}".rstrip()


BAGGAGE = "baggage"
"""The name of the header, and of the key in `_meta`."""

TURN_KEYS = {"pallas.team": "team", "pallas.agent": "agent", "pallas.turn": "turn"}
"""Baggage keys and span attributes, and the fields of log lines for them."""


def turn_of(within: Context | None = None) -> dict[str, str]:
    """The turn of a context (by default the current one), by baggage key; empty without a turn."""
    known = baggage.get_all(within)
    return {key: str(known[key]) for key in TURN_KEYS if key in known} if known else {}


def with_turn(turn: Mapping[str, str], within: Context | None = None) -> Context:
    """The context `within` (by default the current one, without its baggage) with a turn."""
    found = within if within is not None else baggage.clear()
    for key, value in turn.items():
        found = baggage.set_baggage(key, value, found)
    return found


class TurnBaggage(textmap.TextMapPropagator):
    """Propagates the turn and no other baggage."""

    @override
    def extract(
        self,
        carrier: textmap.CarrierT,
        context: Context | None = None,
        getter: textmap.Getter[textmap.CarrierT] = textmap.default_getter,
    ) -> Context:
        header = ",".join(getter.get(carrier, BAGGAGE) or ())
        entries = [entry.partition(";")[0].partition("=") for entry in header.split(",")]
        given = {key.strip(): value.strip() for key, _, value in entries}
        known = {key: value for key, value in given.items() if key in TURN_KEYS and is_token(value)}
        return with_turn(known, context if context is not None else Context())

    @override
    def inject(
        self,
        carrier: textmap.CarrierT,
        context: Context | None = None,
        setter: textmap.Setter[textmap.CarrierT] = textmap.default_setter,
    ) -> None:
        if known := turn_of(context):
            setter.set(carrier, BAGGAGE, ",".join(f"{key}={value}" for key, value in known.items()))

    @property
    @override
    def fields(self) -> set[str]:
        return {BAGGAGE}


WINDOW_SECONDS = 10.0
MOST_WARNINGS, MOST_OTHERS = 20, 2000
"""Lines of one kind in a window: of warnings and errors, and of those below, of which each turn causes some."""
MOST_KINDS = 1000
"""Kinds that are told apart in a window. All further ones of a level are one kind."""
_MARGIN = 0.1

type _Kind = tuple[object, ...]
type About = Callable[[logging.LogRecord], tuple[object, ...]]
"""What a line is about, besides its text."""


@dataclass(slots=True)
class _Window:
    """The lines of a kind in a window, which begins with the `first`."""

    first: logging.LogRecord
    count: int = 0


class LimitedHandler(logging.StreamHandler[TextIO]):
    """Writes lines to a stream, only so many of one kind."""

    def __init__(self, stream: TextIO, about: About) -> None:
        super().__init__(stream)
        self._about = about
        self._windows: dict[_Kind, _Window] = {}

    @override
    def emit(self, record: logging.LogRecord) -> None:
        for told in self._told(record.created - WINDOW_SECONDS):
            super().emit(told)
        kind: _Kind = (record.name, record.levelno, str(record.msg), record.exc_info and record.exc_info[0])
        kind += self._about(record)
        if kind not in self._windows and len(self._windows) >= MOST_KINDS:
            kind = (record.levelno,)
        window = self._windows.setdefault(kind, _Window(record))
        window.count += 1
        most = _most(record)
        if window.count <= most:
            super().emit(record)
        elif window.count == most + 1:
            with suppress(RuntimeError):  # a thread without a loop
                asyncio.get_running_loop().call_later(WINDOW_SECONDS + _MARGIN, self._tell)

    @override
    def close(self) -> None:
        self._tell(float("inf"))
        super().close()

    def _tell(self, before: float | None = None) -> None:
        with self.lock or nullcontext():
            for told in self._told(time.time() - WINDOW_SECONDS if before is None else before):
                super().emit(told)

    def _told(self, before: float) -> Generator[logging.LogRecord]:
        """End the windows that began before that time, oldest first. What they left out is a line each."""
        while self._windows:
            kind, window = next(iter(self._windows.items()))
            if window.first.created > before:
                return
            del self._windows[kind]
            first, more = window.first, window.count - _most(window.first)
            if more > 0:
                text = f"{more} more like this: {str(first.msg).strip()}"
                yield logging.LogRecord(first.name, first.levelno, first.pathname, first.lineno, text, None, None)


def _most(record: logging.LogRecord) -> int:
    return MOST_WARNINGS if record.levelno >= logging.WARNING else MOST_OTHERS


_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"


def discreet_traceback(error: BaseException) -> str:
    """The traceback of `error`, its causes and its group, as Python prints it but without their texts."""
    return "\n".join(_lines(error, set()))


def _lines(error: BaseException, seen: set[int]) -> Iterator[str]:
    seen.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and id(before) not in seen:
        yield from _lines(before, seen)
        yield from ("", _CAUSE if error.__cause__ is not None else _CONTEXT, "")
    if error.__traceback__ is not None:
        yield "Traceback (most recent call last):"
        yield "".join(traceback.format_tb(error.__traceback__)).rstrip("\n")
    yield _name(error)
    for number, inner in enumerate(error.exceptions if _is_group(error) else (), 1):
        if id(inner) not in seen:
            yield from (f"  {line}" for line in (f"{number}:", *_lines(inner, seen)))


def _is_group(error: BaseException) -> TypeIs[BaseExceptionGroup[BaseException]]:
    return isinstance(error, BaseExceptionGroup)


def _name(error: BaseException) -> str:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"{name}: {error.message}" if isinstance(error, PallasError) else name
