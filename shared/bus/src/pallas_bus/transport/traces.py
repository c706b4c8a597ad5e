"""Trace context in the headers of messages. Only this package sets and reads it; handlers do not."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext

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
