"""The trace of whoever sends an MCP message over HTTP.

The SDK looks for it in the message only, and when the caller's bearer has been resolved. So that this is in the trace,
too, it is looked for before.
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
    """Go on inside the block with the caller's trace: the message's `_meta` names it, or else the request's headers.

    When nothing names one, it begins here (span `serve`), but not while the `body` is unknown, as it may name one. A
    caller from `inside` is believed of which turn it calls.
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
    """The trace that a message names, as headers would."""
    try:
        return _Message.model_validate_json(body).params.meta.model_dump()
    except ValidationError:
        return {}


def _text(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
