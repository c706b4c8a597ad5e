"""Logs: one JSON line each, or text for a terminal. Every module uses the standard library's `logging`.

`log_context(turn=…, conversation=…)` adds fields to every line written inside it, in this task and those it starts. A
line that is written within a trace has the ids of trace and span, and the turn of the trace.
Tracebacks never show values of variables, which may be content or secrets. For the same reason JSON lines show the
texts of `PallasError`s only.
"""

import json
import logging
import sys
from contextlib import AbstractContextManager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, override

from opentelemetry.trace import format_span_id, format_trace_id, get_current_span

from pallas_runtime.repeated_lines import LimitedHandler
from pallas_runtime.tracebacks import discreet_traceback
from pallas_runtime.turn_baggage import TURN_KEYS, turn_of

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
