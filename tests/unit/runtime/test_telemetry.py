"""Traces: what is passed to the next service, what is exported, and what is imported without an endpoint."""

import subprocess
import sys

import pytest
from opentelemetry import propagate, trace
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pallas_contracts.errors import Rejected
from pallas_runtime.logs import TurnBaggage, turn_of, with_turn
from pallas_runtime.span_export import CONTENT, Discreet, OfTurn, discreet
from pallas_runtime.telemetry import start_tracing, tracing

TURN = {"pallas.team": "demo", "pallas.agent": "harper", "pallas.turn": "0192"}
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
BOTH = CompositePropagator([TraceContextTextMapPropagator(), TurnBaggage()])


def test_the_ids_of_a_turn_are_passed_on_as_baggage() -> None:
    carrier: dict[str, str] = {}
    BOTH.inject(carrier, with_turn(TURN))
    assert carrier == {"baggage": "pallas.team=demo,pallas.agent=harper,pallas.turn=0192"}
    assert turn_of(BOTH.extract(carrier)) == TURN


def test_other_baggage_of_a_caller_is_dropped() -> None:
    theirs = "user=robert@example.org, pallas.team=demo;p=1 ,pallas.agent=no token!,pallas.turn,=,session=s3cret"
    found = BOTH.extract({"traceparent": TRACEPARENT, "baggage": theirs})
    carrier: dict[str, str] = {}
    BOTH.inject(carrier, found)
    assert carrier == {"traceparent": TRACEPARENT, "baggage": "pallas.team=demo"}


def test_without_an_endpoint_no_span_is_recorded_and_no_sdk_is_imported() -> None:
    program = """
import sys
from pallas_runtime.run import start_tracing
from pallas_runtime.telemetry import tracer, tracing
start_tracing("example", "e1", {})()
assert not tracing() and not tracer.start_span("x").is_recording()
print([name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter", "grpc"))])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"])
def test_an_unknown_protocol_is_refused_with_its_variable(name: str) -> None:
    before = propagate.get_global_textmap()
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", name: "carrier-pigeon"}
    with pytest.raises(Rejected, match=f"^{name}: must be grpc or http/protobuf$"):
        start_tracing("example", "e1", environ)
    propagate.set_global_textmap(before)
    assert not tracing()


def a_span(**attributes: str) -> ReadableSpan:
    """A span that failed, with an error that says too much."""
    fault = Event("exception", {"exception.type": "ValueError", "exception.message": "s3cret"})
    status = Status(StatusCode.ERROR, "s3cret")
    return ReadableSpan("chat", attributes=attributes, events=[fault], status=status, start_time=1, end_time=2)


def test_content_is_removed_from_a_span_and_the_rest_is_kept() -> None:
    content = dict.fromkeys(CONTENT, "s3cret")
    left = discreet(a_span(**content, **{"gen_ai.request.model": "offline"}))
    assert "s3cret" not in left.to_json()
    assert (left.name, left.start_time, left.end_time) == ("chat", 1, 2)
    assert dict(left.attributes or {}) == {"gen_ai.request.model": "offline"}
    assert (left.status.status_code, left.status.description) == (StatusCode.ERROR, None)
    assert [dict(event.attributes or {}) for event in left.events] == [{"exception.type": "ValueError"}]


def test_every_span_within_a_turn_has_the_ids_of_the_turn() -> None:
    kept, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(OfTurn())
    provider.add_span_processor(SimpleSpanProcessor(Discreet(kept)))
    tracer = provider.get_tracer("somebody else")
    tracer.start_span("within", with_turn(TURN)).end()
    tracer.start_span("outside", trace.set_span_in_context(trace.INVALID_SPAN, with_turn({}))).end()
    provider.shutdown()
    assert [dict(span.attributes or {}) for span in kept.get_finished_spans()] == [TURN, {}]
