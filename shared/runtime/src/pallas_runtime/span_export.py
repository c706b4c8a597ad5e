"""Exports spans in batches on a thread of its own. Imported only when there is an OTLP endpoint.

An unavailable collector delays no turn: spans that do not fit the bounded queue are dropped. The standard variables
(`OTEL_EXPORTER_OTLP_*`, `OTEL_BSP_*`, `OTEL_TRACES_SAMPLER`, `OTEL_RESOURCE_ATTRIBUTES`) configure the rest.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import override

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Status

from pallas_runtime.logs import turn_of
from pallas_runtime.metrics import CollectorWatch, ExporterWrapper
from pallas_runtime.telemetry import Protocol

log = logging.getLogger(__name__)

FLUSH_SECONDS = 5.0
"""Seconds that a process waits at its end for the collector."""

AWAY_SECONDS = 1.0
"""The same for a collector that did not accept the spans before."""

CONTENT = frozenset(
    {
        "exception.message",
        "exception.stacktrace",
        "final_result",
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.system_instructions",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "gen_ai.tool.definitions",
        "logfire.json_schema",
        "logfire.msg",
        "metadata",
        "pydantic_ai.all_messages",
    }
)
"""Attributes of spans and their events that hold content, or describe attributes that do."""


def start_export(service: str, instance: str, protocol: Protocol, *, content: bool) -> Callable[[], None]:
    """Export the spans of this process. Returns a function that flushes and stops the export."""
    named = {"service.name": service, "service.namespace": "pallas", "service.instance.id": instance}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    watch = CollectorWatch(_exporter(protocol))
    provider.add_span_processor(OfTurn())
    provider.add_span_processor(BatchSpanProcessor(watch if content else Discreet(watch)))
    trace.set_tracer_provider(provider)
    return partial(_stop, provider, watch)


def _exporter(protocol: Protocol) -> SpanExporter:
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter

        return GrpcSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _stop(provider: TracerProvider, watch: CollectorWatch) -> None:
    """Export the remaining spans within `FLUSH_SECONDS`; the exporters themselves would retry for half a minute."""
    known_away = not watch.accepted
    flushing = threading.Thread(target=provider.shutdown, name="flush-spans", daemon=True)
    flushing.start()
    flushing.join(AWAY_SECONDS if known_away else FLUSH_SECONDS)
    if flushing.is_alive() and not known_away:
        log.warning("the last spans were not exported in time")


class OfTurn(SpanProcessor):
    """Adds the turn to every span."""

    @override
    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        span.set_attributes(turn_of(parent_context))


class Discreet(ExporterWrapper):
    """Removes content from spans: its attributes, and error texts, which may quote it."""

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._inner.export([discreet(span) for span in spans])


def discreet(span: ReadableSpan) -> ReadableSpan:
    """The span without content."""
    attributes = span.attributes or {}
    if span.status.description is None and not span.events and CONTENT.isdisjoint(attributes):
        return span
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=_without_content(attributes),
        events=[Event(each.name, _without_content(each.attributes or {}), each.timestamp) for each in span.events],
        links=span.links,
        kind=span.kind,
        status=Status(span.status.status_code),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _without_content[V](attributes: Mapping[str, V]) -> dict[str, V]:
    return {key: value for key, value in attributes.items() if key not in CONTENT}
