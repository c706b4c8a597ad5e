"""Tracing, off until `OTEL_EXPORTER_OTLP_ENDPOINT` is set; the SDK is not even imported before."""

from collections.abc import Callable, Mapping

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def start_tracing(service: str, instance: str, environ: Mapping[str, str]) -> Callable[[], None]:
    """Send spans to the endpoint of the environment, if there is one. Returns what flushes and stops it."""
    if not environ.get(ENDPOINT):
        return lambda: None
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create(
        {"service.name": service, "service.namespace": "pallas", "service.instance.id": instance}
    )
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider.shutdown
