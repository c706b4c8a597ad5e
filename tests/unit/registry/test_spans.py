"""Programs that poll the registry leave no spans: an agent that is not listed yet is no failure of the registry."""

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from registry.catalogue import Catalogue
from registry.http import make_http


async def test_polling_for_a_team_that_is_not_listed_leaves_no_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    app = make_http(Catalogue("https://pallas.example").listing)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://registry") as http:
        answer = await http.get("/teams/none/.well-known/mcp/server.json")
    assert answer.status_code == 404
    assert exporter.get_finished_spans() == ()
