"""A probe of one downstream server, against real ones and such as misbehave."""

import asyncio
import gzip
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import pytest
from pydantic import SecretStr
from starlette.responses import Response
from tests.integration.health_monitor.servers import Downstream, answering, hung, late, mcp_app, modern_only
from tests.requirements import requirement
from tests.waiting import PATIENCE, soon

from health_monitor.probes.mcp_probe import McpProbe
from health_monitor.probes.model_probe import ModelProbe
from health_monitor.probes.probing import LARGEST_ANSWER, make_http
from pallas_teams import HttpServer, ProviderConfig

OPENED = {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-06-18"}}


@pytest.fixture
async def stack() -> AsyncGenerator[AsyncExitStack]:
    """What is left open until the end of the test."""
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def downstream() -> AsyncGenerator[Downstream]:
    """A port on which a test can serve any application."""
    server = Downstream()
    yield server
    await server.stop()


@pytest.fixture
async def probe(stack: AsyncExitStack) -> McpProbe:
    """A probe that has patience."""
    return await a_probe(stack, PATIENCE)


async def a_probe(stack: AsyncExitStack, seconds: float) -> McpProbe:
    """A probe with a time limit."""
    probe = McpProbe(await stack.enter_async_context(make_http(seconds)), seconds)
    stack.push_async_callback(probe.close)
    return probe


def _server(downstream: Downstream, **headers: str) -> HttpServer:
    return HttpServer("argos", SecretStr(downstream.url), {name: SecretStr(value) for name, value in headers.items()})


@pytest.mark.parametrize("json_response", [False, True])
@requirement("P-3.11", "P-3.12")
async def test_a_probe_deletes_its_session_with_the_same_headers(
    stack: AsyncExitStack, downstream: Downstream, probe: McpProbe, json_response: bool
) -> None:
    await downstream.start(await stack.enter_async_context(mcp_app(json_response=json_response)))
    assert await probe.probe(_server(downstream, Authorization="Bearer s3cret")) is None
    await soon(downstream.deleted.wait())
    post, delete = downstream.requests
    assert (post.verb, post.method) == ("POST", "initialize")
    assert post.headers["accept"] == "application/json, text/event-stream"
    assert post.headers["authorization"] == delete.headers["authorization"] == "Bearer s3cret"
    assert delete.verb == "DELETE"
    assert len(delete.headers["mcp-session-id"]) > 10
    assert delete.headers["mcp-protocol-version"] == "2025-11-25"


async def test_a_server_with_only_the_modern_revision_gets_a_server_discover(
    stack: AsyncExitStack, downstream: Downstream, probe: McpProbe
) -> None:
    await downstream.start(modern_only(await stack.enter_async_context(mcp_app())))
    assert await probe.probe(_server(downstream, Authorization="Bearer s3cret")) is None
    assert [request.method for request in downstream.requests] == ["initialize", "server/discover"]
    assert downstream.requests[1].headers["mcp-method"] == "server/discover"
    assert downstream.requests[1].headers["authorization"] == "Bearer s3cret"


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, OPENED, None),
        (401, {"error": "who are you"}, "HTTP 401"),
        (500, "oops", "HTTP 500"),
        (400, OPENED, "HTTP 400"),
        (200, {"status": "fine"}, "does not answer as an MCP server"),
        (200, ["not", "a", "message"], "does not answer as an MCP server"),
        (200, {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "s3cret"}}, "answered with an error"),
    ],
)
async def test_only_a_result_counts_as_reachable(
    downstream: Downstream, probe: McpProbe, status: int, body: object, reason: str | None
) -> None:
    await downstream.start(answering(status, body))
    assert await probe.probe(_server(downstream)) == reason


async def test_an_unreachable_server_is_reported_as_such(downstream: Downstream, probe: McpProbe) -> None:
    assert await probe.probe(_server(downstream)) == "cannot connect"


@requirement("P-3.10")
async def test_a_probe_of_a_hanging_server_ends_at_the_time_limit(
    stack: AsyncExitStack, downstream: Downstream
) -> None:
    probe, released = await a_probe(stack, 0.5), asyncio.Event()
    await downstream.start(hung(released))
    assert await soon(probe.probe(_server(downstream))) == "no answer in 0.5 s"
    released.set()


@pytest.mark.parametrize("begins", [False, True], ids=["before the answer", "within the answer"])
async def test_the_session_of_a_server_that_answers_too_late_is_deleted(
    stack: AsyncExitStack, downstream: Downstream, begins: bool
) -> None:
    probe, released = await a_probe(stack, 0.2), asyncio.Event()
    await downstream.start(late(released, begins=begins))
    assert await soon(probe.probe(_server(downstream))) == "no answer in 0.2 s"
    assert not downstream.deleted.is_set()
    released.set()
    await soon(downstream.deleted.wait())
    assert downstream.requests[-1].headers["mcp-session-id"] == "late"


async def test_a_probe_that_is_closed_waits_for_no_server(stack: AsyncExitStack, downstream: Downstream) -> None:
    probe, released = await a_probe(stack, 0.2), asyncio.Event()
    await downstream.start(late(released, begins=True))
    await soon(probe.probe(_server(downstream)))
    await soon(probe.close())
    assert downstream.deleted.is_set(), "its session is known"
    released.set()


async def test_an_invalid_header_fails_the_probe_without_showing_its_value(
    downstream: Downstream, probe: McpProbe
) -> None:
    reason = await probe.probe(_server(downstream, Authorization="Bearer schlüssel\n"))
    assert reason is not None
    assert "schl" not in reason


MODELS = {"object": "list", "data": [{"id": "gpt-5"}, {"id": "qwen3:latest"}]}


@pytest.mark.parametrize(
    ("provider", "model", "status", "body", "reason", "path"),
    [
        ("openai", "gpt-5", 200, MODELS, None, "/mcp/models"),
        ("generic", "qwen3", 200, MODELS, None, "/mcp/models"),
        ("openai", "gpt-6", 200, MODELS, "has no model 'gpt-6'", "/mcp/models"),
        ("openai", "gpt-5", 401, {}, "HTTP 401", "/mcp/models"),
        ("openai", "gpt-5", 200, "hello", "does not list its models", "/mcp/models"),
        ("anthropic", "claude", 200, {"id": "claude"}, None, "/mcp/v1/models/claude"),
        ("anthropic", "claude", 404, {}, "has no model 'claude'", "/mcp/v1/models/claude"),
    ],
)
async def test_a_probe_of_a_provider_only_lists_its_models(
    stack: AsyncExitStack,
    downstream: Downstream,
    provider: str,
    model: str,
    status: int,
    body: object,
    reason: str | None,
    path: str,
) -> None:
    await downstream.start(answering(status, body))
    probe = ModelProbe(await stack.enter_async_context(make_http(PATIENCE)), PATIENCE)
    config = ProviderConfig(provider, SecretStr(downstream.url), SecretStr("s3cret"))
    assert await probe.probe(config, model) == reason
    (request,) = downstream.requests
    assert (request.verb, request.path) == ("GET", path)
    key = "x-api-key" if provider == "anthropic" else "authorization"
    assert request.headers[key].endswith("s3cret")


LINE = Response(b"data: " + b" " * LARGEST_ANSWER, media_type="text/event-stream")
BOMB = Response(gzip.compress(gzip.compress(b" " * LARGEST_ANSWER)), headers={"content-encoding": "gzip, gzip"})


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(LINE, "its answer is too large"), (BOMB, "its answer is compressed, which was not asked for")],
    ids=["a line without an end", "compressed twice"],
)
async def test_no_answer_of_a_server_or_a_provider_costs_the_monitor_more_than_its_limit(
    stack: AsyncExitStack, downstream: Downstream, probe: McpProbe, answer: Response, reason: str
) -> None:
    await downstream.start(answer)
    assert await soon(probe.probe(_server(downstream))) == reason
    models = ModelProbe(await stack.enter_async_context(make_http(PATIENCE)), PATIENCE)
    config = ProviderConfig("openai", SecretStr(downstream.url), SecretStr("s3cret"))
    assert await soon(models.probe(config, "gpt-5")) == reason
    assert {request.headers["accept-encoding"] for request in downstream.requests} == {"identity"}
