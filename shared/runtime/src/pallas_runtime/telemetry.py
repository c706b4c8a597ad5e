"""Traces, and the turn that they belong to. Off unless an OTLP endpoint is set.

Services make spans with `tracer`, named after the function that does the step. Without an endpoint the spans are not
recorded, and neither SDK nor exporter is imported.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Literal

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pallas_contracts.errors import Rejected
from pallas_runtime.logs import TurnBaggage, log_context, with_turn

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")

type Protocol = Literal["grpc", "http/protobuf"]

_NO_SPAN = nullcontext(trace.INVALID_SPAN)


class _Tracer:
    """Makes spans while they are `exported`. Otherwise making none is cheaper than making spans that do nothing."""

    def __init__(self) -> None:
        self._tracer: trace.Tracer = trace.ProxyTracer("pallas")
        self.exported = False

    def start_as_current_span(self, name: str, **options: Any) -> AbstractContextManager[trace.Span]:
        """A span around the block, with the options of OpenTelemetry."""
        return self._tracer.start_as_current_span(name, **options) if self.exported else _NO_SPAN

    def start_span(self, name: str, within: Context | None = None, **options: Any) -> trace.Span:
        """A span that ends with its `end`."""
        return self._tracer.start_span(name, within, **options) if self.exported else trace.INVALID_SPAN


tracer = _Tracer()
"""Makes the spans of all services."""


def start_tracing(
    service: str, instance: str, environ: Mapping[str, str], *, content: bool = False
) -> Callable[[], None]:
    """Export spans to the endpoint in the environment, if there is one. Returns a function that flushes and stops it.

    Without `content` no prompts, arguments or answers are exported.

    Raises:
        Rejected: the protocol is unknown.
    """
    propagate.set_global_textmap(CompositePropagator([TraceContextTextMapPropagator(), TurnBaggage()]))
    if not any(environ.get(name) for name in ENDPOINTS):
        return lambda: None
    protocol = _protocol(environ)
    from pallas_runtime.span_export import start_export

    tracer.exported = True
    return start_export(service, instance, protocol, content=content)


def _protocol(environ: Mapping[str, str]) -> Protocol:
    for name in PROTOCOLS:
        match environ.get(name, ""):
            case "":
                continue
            case "grpc" | "http/protobuf" as known:
                return known
            case _:
                raise Rejected(f"{name}: must be grpc or http/protobuf", code="bad_settings")
    return "http/protobuf"


def tracing() -> bool:
    """Whether spans are exported."""
    return tracer.exported


def of_turn(
    *, team: str, agent: str, turn: str, conversation: str | None = None, task: str | None = None
) -> AbstractContextManager[None]:
    """Add the turn to every log line and span inside the block, here and in the services that are called from here.

    The span around the block gets it too. The conversation and the task are added to log lines only.
    """
    logged = log_context(team=team, agent=agent, turn=turn, conversation=conversation, task=task)
    if not tracing():
        return logged
    return _traced(logged, {"pallas.team": team, "pallas.agent": agent, "pallas.turn": turn})


@contextmanager
def _traced(logged: AbstractContextManager[None], turn: Mapping[str, str]) -> Generator[None]:
    with logged:
        trace.get_current_span().set_attributes(turn)
        token = context.attach(with_turn(turn))
        try:
            yield
        finally:
            context.detach(token)
