"""Continues the trace of the caller that sends an MCP message over HTTP.

The SDK reads the trace from the message only, and only after the caller's bearer has been resolved. It is read here
before that, so that resolving the bearer is part of the trace.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from opentelemetry import context, propagate, trace
from opentelemetry.trace import SpanKind
from pydantic import BaseModel, Field, ValidationError

from pallas_runtime.telemetry import tracer, tracing


class _Meta(BaseModel):
    traceparent: str
    tracestate: str = ""
    baggage: str = ""


class _Params(BaseModel):
    meta: _Meta = Field(alias="_meta")


class _Message(BaseModel):
    params: _Params


@contextmanager
def of_caller(headers: Iterable[tuple[bytes, bytes]], body: bytes | None, *, inside: bool = False) -> Generator[None]:
    """Continue the caller's trace inside the block: that of the message's `_meta`, or else of the request's headers.

    Without one a trace begins here (span `serve`), unless `body` is None: the message may still have one. The turn in
    the baggage is trusted only from a caller `inside` the platform.
    """
    if not tracing():
        yield
        return
    carrier = (_named_by(body) if body is not None else {}) or _text(headers)
    if not inside:
        carrier.pop("baggage", None)
    found = propagate.extract(carrier)
    if body is not None and not trace.get_current_span(found).get_span_context().is_valid:
        with tracer.start_as_current_span("serve", kind=SpanKind.SERVER):
            yield
        return
    token = context.attach(found)
    try:
        yield
    finally:
        context.detach(token)


def _named_by(body: bytes) -> dict[str, str]:
    """The trace in the `_meta` of a message, as headers."""
    try:
        return _Message.model_validate_json(body).params.meta.model_dump()
    except ValidationError:
        return {}


def _text(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
