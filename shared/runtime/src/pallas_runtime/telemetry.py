"""Traces: of which turn they are, and where spans go once an OTLP endpoint is set. Off until then.

Services make spans with `tracer`, named after the function that does the step. Without an endpoint that does nothing,
and neither SDK nor exporter is imported.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Literal

from opentelemetry import context, propagate, trace
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pallas_contracts.errors import Rejected
from pallas_runtime.logs import log_context
from pallas_runtime.turn_baggage import TurnBaggage, with_turn

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")

type Protocol = Literal["grpc", "http/protobuf"]

tracer = trace.get_tracer("pallas")
"""Makes the spans of all services."""


def start_tracing(
    service: str, instance: str, environ: Mapping[str, str], *, content: bool = False
) -> Callable[[], None]:
    """Send spans to the endpoint of the environment, if there is one. Returns what flushes and stops it.

    Without `content` nothing is sent that could be a prompt, an argument or an answer.

    Raises:
        Rejected: the protocol is none that there is.
    """
    propagate.set_global_textmap(CompositePropagator([TraceContextTextMapPropagator(), TurnBaggage()]))
    if not any(environ.get(name) for name in ENDPOINTS):
        return lambda: None
    protocol = _protocol(environ)
    from pallas_runtime.span_export import start_export

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
    """Whether spans go anywhere."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


@contextmanager
def of_turn(*, team: str, agent: str, turn: str, conversation: str | None = None) -> Generator[None]:
    """Say with every log line and span inside the block which turn it is of, here and in whoever is asked from here.

    The span around the block is of that turn, too. The conversation is in log lines only.
    """
    with log_context(team=team, agent=agent, turn=turn, conversation=conversation):
        if not tracing():
            yield
            return
        known = {"pallas.team": team, "pallas.agent": agent, "pallas.turn": turn}
        trace.get_current_span().set_attributes(known)
        token = context.attach(with_turn(known))
        try:
            yield
        finally:
            context.detach(token)
