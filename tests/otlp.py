"""A collector for tests: receives spans by OTLP over HTTP and gRPC, and keeps them."""

import asyncio
import gzip
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from tests.integration.real_parts import until
from tests.waiting import PATIENCE

from pallas_runtime.http.listener import bind, listening

_SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"
_KINDS = {value: name.removeprefix("SPAN_KIND_").lower() for name, value in trace_pb2.Span.SpanKind.items()}


@dataclass(frozen=True)
class Span:
    """A received span. Times are seconds since the epoch."""

    service: str
    instance: str
    name: str
    kind: str
    trace: str
    id: str
    parent: str
    began: float
    ended: float
    failed: bool
    attributes: Mapping[str, Any]


@dataclass
class Collector:
    """The received `spans`, and the `requests` that had them. `http` and `grpc` are its URLs."""

    http: str = ""
    grpc: str = ""
    spans: list[Span] = field(default_factory=list[Span])
    requests: list[bytes] = field(default_factory=list[bytes])

    def take(self, data: bytes) -> None:
        """Keep a request."""
        self.requests.append(data)
        for resource in ExportTraceServiceRequest.FromString(data).resource_spans:
            about = _values(resource.resource.attributes)
            for scope in resource.scope_spans:
                self.spans += [_span(about, span) for span in scope.spans]

    def of(self, trace: str) -> list[Span]:
        return [span for span in self.spans if span.trace == trace]

    async def until(self, came: Callable[[], bool], within: float = PATIENCE) -> None:
        """Wait until `came` returns True."""

        async def look() -> bool:
            return came()

        await until(look, within)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve OTLP over HTTP."""
        request = Request(scope, receive)
        body = await request.body()
        known = scope["path"] == "/v1/traces" and request.headers["content-type"] == "application/x-protobuf"
        if known:
            self.take(gzip.decompress(body) if request.headers.get("content-encoding") == "gzip" else body)
        answer = ExportTraceServiceResponse().SerializeToString()
        await Response(answer, 200 if known else 404, media_type="application/x-protobuf")(scope, receive, send)


def _exporting(collector: Collector, loop: asyncio.AbstractEventLoop) -> grpc.GenericRpcHandler:
    """Serves OTLP over gRPC, on threads of its own."""

    def export(request: bytes, _context: grpc.ServicerContext) -> bytes:
        loop.call_soon_threadsafe(collector.take, request)
        return ExportTraceServiceResponse().SerializeToString()

    return grpc.method_handlers_generic_handler(_SERVICE, {"Export": grpc.unary_unary_rpc_method_handler(export)})


@asynccontextmanager
async def collecting(*, http_port: int = 0, grpc_port: int = 0) -> AsyncGenerator[Collector]:
    """Run a collector, on free ports unless they are given."""
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((_exporting(collector, asyncio.get_running_loop()),))
    collector.grpc = f"http://127.0.0.1:{server.add_insecure_port(f'127.0.0.1:{grpc_port}')}"
    server.start()
    listener = bind("127.0.0.1", http_port)
    collector.http = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        async with listening(collector, listener, drain_seconds=1):
            yield collector
    finally:
        await asyncio.to_thread(server.stop(0).wait)


def _span(about: Mapping[str, Any], span: trace_pb2.Span) -> Span:
    return Span(
        service=about["service.name"],
        instance=about["service.instance.id"],
        name=span.name,
        kind=_KINDS[span.kind],
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        began=span.start_time_unix_nano / 1e9,
        ended=span.end_time_unix_nano / 1e9,
        failed=span.status.code == trace_pb2.Status.STATUS_CODE_ERROR,
        attributes=_values(span.attributes),
    )


def _values(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    match value.WhichOneof("value"):
        case "array_value":
            return [_value(each) for each in value.array_value.values]
        case None:
            return None
        case kind:
            return getattr(value, kind)
