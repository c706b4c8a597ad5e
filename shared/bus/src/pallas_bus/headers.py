"""Headers of the broker: what it checks before it stores a message, how long it keeps it, and how a pull has ended."""

import math
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext

from pallas_contracts.errors import Rejected

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"
"""The position that the last message on a subject must have (0: there must be none), and that subject.

Without `EXPECTED_SUBJECT` it is the subject of the message itself.
"""

PULL_ENDED = frozenset({"404", "408"})
"""The status of a pull that ended without a message: there is none now, or there was none in time."""


def time_to_live(seconds: float) -> dict[str, str]:
    """The header for a time to live, which the broker takes in whole seconds."""
    return {"Nats-TTL": f"{max(1, math.ceil(seconds))}s"}


_LINE_BREAKS = str.maketrans("\r\n", "  ")


def encoded(headers: Mapping[str, str]) -> bytes:
    """The block of headers in a message. A line break becomes a space: it would begin another header or command."""
    lines = [f"{name}: {value}" for name, value in headers.items()]
    clean = [line if line.isprintable() else line.translate(_LINE_BREAKS) for line in lines]
    return "\r\n".join(("NATS/1.0", *clean, "", "")).encode()


def decoded(raw: bytes) -> dict[str, str]:
    """The headers of a block, without its first line."""
    pairs = [line.partition(":") for line in raw.decode("utf-8", "replace").split("\r\n")]
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}


tracer: trace.Tracer = trace.ProxyTracer("pallas")
"""Makes the spans of questions and answers."""

_HEADERS = frozenset({"traceparent", "baggage"})

SYSTEM = {"messaging.system": "nats"}
"""The attributes of every span of a message."""


def is_traced() -> bool:
    """Whether spans are exported. If not, making none is cheaper than making spans that do nothing."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def trace_headers(headers: dict[str, str] | None = None) -> dict[str, str]:
    """Add the current trace context to `headers`, if there is one, and return them."""
    carrier = headers if headers is not None else {}
    if context.get_current():
        propagate.inject(carrier)
    return carrier


def trace_of(headers: Mapping[str, str]) -> str | None:
    """The id of the trace that a message with these headers belongs to."""
    within = span_of(headers)
    return trace.format_trace_id(within.trace_id) if within.is_valid else None


def span_of(headers: Mapping[str, str]) -> SpanContext:
    """The span in which a message with these headers was sent; an invalid one if there is none."""
    return trace.get_current_span(propagate.extract(headers, Context())).get_span_context()


@contextmanager
def continued(headers: Mapping[str, str] | None) -> Generator[Context]:
    """Continue the trace of a message with these headers inside the block. Yields its context."""
    found = Context() if headers is None or _HEADERS.isdisjoint(headers) else propagate.extract(headers)
    token = context.attach(found)
    try:
        yield found
    finally:
        context.detach(token)


ROOT = "pallas.v1."
"""The beginning of every subject of Pallas."""


def subject_filter(text: str) -> str:
    """A filter as the broker takes it. In `text`, `ROOT` may be left out, as in `turn.outcome.>`.

    Raises:
        Rejected: an empty part, a wildcard within a part, or `>` before the end.
    """
    parts = text.removeprefix(ROOT).split(".")
    if not all(parts) or any(character.isspace() for character in text):
        raise Rejected(f"{text!r} is not a subject: a part of it is empty or has a space")
    if ">" in parts[:-1] or any(len(part) > 1 and set(part) & {"*", ">"} for part in parts):
        raise Rejected(f"{text!r} is not a subject: '*' must be a whole part, and '>' the last one")
    return ROOT + ".".join(parts)


def overlap(one: str, other: str) -> bool:
    """Whether some subject matches both filters."""
    ones, others = one.split("."), other.split(".")
    for mine, theirs in zip(ones, others, strict=False):
        if ">" in (mine, theirs):
            return True
        if mine != theirs and "*" not in (mine, theirs):
            return False
    return len(ones) == len(others)
