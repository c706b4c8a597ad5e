"""The registry as a caller meets it: over HTTP, on tables that a real broker keeps."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from tests.conftest import Connecting
from tests.embedded import NatsServer, free_port
from tests.waiting import PATIENCE, within

from pallas_bus.access import Access
from pallas_bus.connection import Bus, connect
from pallas_bus.kv import delete, put
from pallas_bus.streams import declare
from pallas_contracts.agents import AgentDefinition, GatewayPresence
from pallas_contracts.catalog import AGENTS, GATEWAY, GATEWAYS, HEALTH, MONITOR, WORKER, WORKERS
from pallas_contracts.health import AgentHealth
from pallas_contracts.message import utc_now
from pallas_runtime.http.listener import bind, listening
from pallas_runtime.probes import Probes, with_probes
from pallas_runtime.process import Process
from registry import catalogue
from registry.app import build
from registry.settings import RegistrySettings

ALLOWED = 1.0
"""Seconds until a change shows."""

SCHEMA: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "data" / "server-2025-12-11.schema.json").read_text("utf-8")
)
WELL_KNOWN = "/.well-known/mcp/server.json"


@asynccontextmanager
async def _registry(nats_url: str, *, port: int = 0, also: str = "") -> AsyncGenerator[httpx.AsyncClient]:
    """A running registry on its own port, and a client of it."""
    variables = {"PALLAS_NATS_URL": nats_url, "PALLAS_PUBLIC_URL": "http://pallas.example"}
    settings = RegistrySettings.from_env(variables | {"PALLAS_REGISTRY_ALSO": also})
    listener = bind("127.0.0.1", port)
    process = Process("registry", "registry-test", listener.getsockname()[1], Probes())
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(build(settings, process))
        process.probes.started = True
        app = with_probes(process.probes, lambda: service.http)
        await stack.enter_async_context(listening(app, listener, drain_seconds=1))
        url = f"http://127.0.0.1:{process.port}"
        yield await stack.enter_async_context(httpx.AsyncClient(base_url=url, trust_env=False))


@pytest.fixture
async def worker(bus: Connecting) -> Bus:
    """Whoever publishes definitions, with all buckets in place."""
    await declare(await bus(GATEWAY), AGENTS, WORKERS, GATEWAYS)
    await declare(await bus(MONITOR), HEALTH)
    return await bus(WORKER)


@pytest.fixture
async def client(worker: Bus, nats_url: str) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of a running registry."""
    async with _registry(nats_url) as client:
        yield client


def _definition(team: str, agent: str = "research", **fields: Any) -> AgentDefinition:
    given = {"team": team, "agent": agent, "namespace": f"x.{team}", "title": agent, "updated_at": utc_now()}
    return AgentDefinition.model_validate(given | fields)


async def _publish(bus: Bus, definition: AgentDefinition) -> None:
    await put(bus, AGENTS, definition, team=definition.team, agent=definition.agent)


async def _until(
    client: httpx.AsyncClient,
    path: str,
    accepts: Callable[[httpx.Response], bool],
    headers: dict[str, str] | None = None,
) -> httpx.Response:
    """Ask again until the answer is accepted."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if accepts(response := await client.get(path, headers=headers)):
                return response
            await asyncio.sleep(0.01)


async def _until_in_time(
    client: httpx.AsyncClient, path: str, accepts: Callable[[httpx.Response], bool]
) -> httpx.Response:
    """The same, in the time that is allowed; the pauses of the machine do not count."""
    async with within(ALLOWED):
        return await _until(client, path, accepts)


def _well_known(team: str) -> str:
    return f"/teams/{team}{WELL_KNOWN}"


async def test_an_agent_is_listed_within_a_second_of_being_added_and_removed_as_fast(
    client: httpx.AsyncClient, worker: Bus, team: str
) -> None:
    assert (await client.get(_well_known(team))).status_code == 404
    await _publish(worker, _definition(team))
    response = await _until_in_time(client, _well_known(team), lambda found: found.status_code == 200)
    assert response.headers["content-type"] == "application/json"
    (entry,) = response.json()["servers"]
    jsonschema.validate(entry["server"], SCHEMA)
    assert entry["server"]["remotes"] == [
        {"type": "streamable-http", "url": f"http://pallas.example/teams/{team}/mcp/research"}
    ]
    assert entry in (await client.get(WELL_KNOWN)).json()["servers"]
    await delete(worker, AGENTS, team=team, agent="research")
    gone = await _until_in_time(client, _well_known(team), lambda found: found.status_code == 404)
    assert gone.json() == {"error": f"team {team!r} has no agents", "code": "not_found"}


async def test_a_changed_health_shows_within_a_second_and_leaves_updated_at_alone(
    client: httpx.AsyncClient, worker: Bus, bus: Connecting, team: str
) -> None:
    await _publish(worker, _definition(team))
    first = await _until_in_time(client, _well_known(team), lambda found: found.status_code == 200)
    health = AgentHealth(
        team=team, agent="research", status="degraded", message="argos unreachable", interval=15, at=utc_now()
    )
    await put(await bus(MONITOR), HEALTH, health, team=team, agent="research")
    response = await _until_in_time(client, _well_known(team), lambda found: "io.pallas/health" in found.text)
    meta, before = response.json()["servers"][0]["_meta"], first.json()["servers"][0]["_meta"]
    assert (meta["io.pallas/health"]["status"], meta["io.pallas/health"]["message"]) == (
        "degraded",
        "argos unreachable",
    )
    official = "io.modelcontextprotocol.registry/official"
    assert meta[official] == before[official]


async def test_a_dedicated_port_bound_by_a_gateway_becomes_the_remote(
    client: httpx.AsyncClient, worker: Bus, bus: Connecting, team: str
) -> None:
    await _publish(worker, _definition(team))
    presence = GatewayPresence(
        gateway=f"g-{team}", url="http://g", host="puck.incus", ports={f"{team}.research": 23031}, at=utc_now()
    )
    await put(await bus(GATEWAY), GATEWAYS, presence, gateway=f"g-{team}")
    await _until(client, _well_known(team), lambda found: "http://puck.incus:23031/mcp" in found.text)


async def test_an_unchanged_document_is_answered_with_304(client: httpx.AsyncClient, worker: Bus, team: str) -> None:
    await _publish(worker, _definition(team))
    first = await _until(client, _well_known(team), lambda found: found.status_code == 200)
    headers = {"If-None-Match": first.headers["etag"]}
    same = await client.get(_well_known(team), headers=headers)
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", first.headers["etag"])
    assert same.headers["access-control-allow-origin"] == "*"
    await _publish(worker, _definition(team, title="Another"))
    await _until(client, _well_known(team), lambda found: found.status_code == 200, headers)


async def test_any_web_page_may_read_the_catalogue(client: httpx.AsyncClient) -> None:
    assert (await client.get(WELL_KNOWN)).headers["access-control-allow-origin"] == "*"
    assert (await client.get("/nothing")).headers["access-control-allow-origin"] == "*"
    preflight = await client.options(
        WELL_KNOWN, headers={"Origin": "https://editor.example", "Access-Control-Request-Method": "GET"}
    )
    assert preflight.status_code == 204
    assert "GET" in preflight.headers["access-control-allow-methods"]
    head = await client.head(WELL_KNOWN)
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize("slash", ["/", "%2F", "%252F"])
async def test_a_server_is_found_by_its_name_whether_encoded_or_not(
    client: httpx.AsyncClient, worker: Bus, team: str, slash: str
) -> None:
    await _publish(worker, _definition(team, version="1.2.0"))
    await _until(client, _well_known(team), lambda found: found.status_code == 200)
    base = f"/v0.1/servers/x.{team}{slash}pallas-research/versions"
    versions = (await client.get(base)).json()
    assert versions["metadata"] == {"count": 1}
    for version in ("latest", "1.2.0"):
        assert (await client.get(f"{base}/{version}")).json() == versions["servers"][0]
    missing = await client.get(f"{base}/9.9.9")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


async def test_an_editor_pages_through_all_servers(client: httpx.AsyncClient, worker: Bus, team: str) -> None:
    for agent in ("a", "b", "c"):
        await _publish(worker, _definition(team, agent))
    await _until(client, _well_known(team), lambda found: found.text.count('"$schema"') == 3)
    names, cursor = list[str](), ""
    while True:
        query = f"?limit=2&version=latest&search=x.{team}" + (f"&cursor={cursor}" if cursor else "")
        found = (await client.get(f"/v0.1/servers{query}")).json()
        names += [entry["server"]["name"] for entry in found["servers"]]
        if not (cursor := found["metadata"].get("nextCursor", "")):
            break
    assert names == [f"x.{team}/pallas-{agent}" for agent in "abc"]


async def test_a_bad_parameter_and_an_unknown_server_are_explained(client: httpx.AsyncClient) -> None:
    for query in ("limit=0", "cursor=???", "updated_since=now"):
        response = await client.get(f"/v0.1/servers?{query}")
        parameter = query.partition("=")[0]
        assert response.status_code == 400
        assert response.json()["parameter"] == parameter
        assert parameter in response.json()["error"]
    unknown = await client.get("/v0.1/servers/x.nowhere%2Fpallas-none/versions")
    assert unknown.status_code == 404
    assert "x.nowhere/pallas-none" in unknown.json()["error"]
    assert (await client.post(WELL_KNOWN)).status_code == 405


async def test_the_registry_is_ready_once_its_tables_are_read_and_has_no_docs_page(client: httpx.AsyncClient) -> None:
    await _until(client, "/readyz", lambda found: found.status_code == 200)
    assert (await client.get("/docs")).status_code == 404
    assert "/v0.1/servers" in (await client.get("/openapi.json")).json()["paths"]


@asynccontextmanager
async def _cell(team: str, agent: str) -> AsyncGenerator[tuple[str, Bus]]:
    """A broker of its own with one agent of a team, and a connection of its worker."""
    with NatsServer() as server:
        async with connect(Access(server.url), GATEWAY) as gateway, connect(Access(server.url), MONITOR) as monitor:
            await declare(gateway, AGENTS, WORKERS, GATEWAYS)
            await declare(monitor, HEALTH)
            health = AgentHealth(team=team, agent=agent, status="ok", interval=15, at=utc_now())
            await put(monitor, HEALTH, health, team=team, agent=agent)
        async with connect(Access(server.url), WORKER) as worker:
            await _publish(worker, _definition(team, agent))
            yield server.url, worker


def _listed(found: httpx.Response) -> dict[str, str | None]:
    """Name and status of each agent in a document."""
    return {
        entry["server"]["name"]: entry["_meta"].get("io.pallas/health", {}).get("status")
        for entry in found.json()["servers"]
    }


async def test_two_registries_that_name_each_other_list_the_agents_of_both_cells_and_none_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalogue, "EVERY", 0.02)
    monkeypatch.setattr(catalogue, "STALE_SECONDS", 0.1)
    port, other = free_port(), free_port()
    first, second = "x.east/pallas-research", "x.west/pallas-writing"
    async with (
        _cell("east", "research") as (east_url, east),
        _cell("west", "writing") as (west_url, _),
        AsyncExitStack() as west,
        _registry(east_url, port=port, also=f"http://127.0.0.1:{other}") as here,
    ):
        await _until(here, WELL_KNOWN, lambda found: _listed(found) == {first: "ok"})
        ready = await _until(here, "/readyz", lambda found: found.status_code == 200)
        assert ready.json()["notes"] == {"other cells": f"http://127.0.0.1:{other}: no answer"}
        there = await west.enter_async_context(
            _registry(west_url, port=other, also=f"http://127.0.0.1:{port}/, http://127.0.0.1:{port}")
        )
        for client in (here, there):
            await _until(client, WELL_KNOWN, lambda found: _listed(found) == {first: "ok", second: "ok"})
        assert "notes" not in (await here.get("/readyz")).json()
        assert _listed(await here.get(f"/own{WELL_KNOWN}")) == {first: "ok"}
        assert (await here.get(_well_known("west"))).status_code == 404
        assert (await here.get(f"/v0.1/servers/{second}/versions/latest")).status_code == 200
        await delete(east, AGENTS, team="east", agent="research")
        for client in (here, there):
            await _until(client, WELL_KNOWN, lambda found: _listed(found) == {second: "ok"})
        await west.aclose()
        await _until(here, WELL_KNOWN, lambda found: _listed(found) == {second: "degraded"})
