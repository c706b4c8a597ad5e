"""Logs: one JSON line each, or text for a terminal. Every module uses the standard library's `logging`.

`log_context(turn=…, conversation=…)` adds fields to every line written inside it, in this task and those it starts.
"""

import logging
import sys
from contextlib import AbstractContextManager
from typing import Any

import structlog
from structlog.typing import EventDict, Processor

_QUIET = ("httpx", "httpx2", "mcp", "nats", "uvicorn.access", "uvicorn.error", "sse_starlette", "asyncio")


_TRACEBACKS = structlog.tracebacks.ExceptionDictTransformer(show_locals=False, max_frames=20)
"""Without the values of local variables: they hold what callers said, and secrets."""


def configure_logs(service: str, instance: str, level: str, style: str) -> None:
    """Send all logging of this process to standard error, as `json` or `text`."""

    def identify(_logger: Any, _method: str, event: EventDict) -> EventDict:
        return {"service": service, "instance": instance, **event}

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        identify,
    ]
    last: list[Processor] = (
        [structlog.processors.ExceptionRenderer(_TRACEBACKS), structlog.processors.JSONRenderer()]
        if style == "json"
        else [
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        ]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level]))


def log_context(**fields: object) -> AbstractContextManager[None]:
    """Add `fields` to every log line inside the `with` block; None values are left out."""
    return structlog.contextvars.bound_contextvars(
        **{name: value for name, value in fields.items() if value is not None}
    )
