"""The context of a trace as it travels with messages: in their headers, set and read here and by no handler."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context

tracer = trace.get_tracer("pallas")
"""Makes the spans of what is asked and answered."""

SYSTEM = {"messaging.system": "nats"}
"""What every span of a message says."""


def is_traced() -> bool:
    """Whether spans go anywhere; without a collector making none is cheaper than making those that do nothing."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def trace_headers(headers: dict[str, str] | None = None) -> dict[str, str]:
    """Add the current trace context to `headers` (nothing when no trace is active)."""
    carrier = headers if headers is not None else {}
    propagate.inject(carrier)
    return carrier


def trace_of(headers: Mapping[str, str]) -> str | None:
    """The id of the trace that a message with these headers belongs to."""
    within = trace.get_current_span(propagate.extract(headers)).get_span_context()
    return trace.format_trace_id(within.trace_id) if within.is_valid else None


@contextmanager
def continued(headers: Mapping[str, str] | None) -> Generator[Context]:
    """Go on inside the block with the trace of a message that has these headers. Yields its context."""
    found = propagate.extract(headers or {})
    token = context.attach(found)
    try:
        yield found
    finally:
        context.detach(token)
