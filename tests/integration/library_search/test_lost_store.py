"""A broker that comes back with an empty store gets every change again, and the search misses none."""

import asyncio
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.conftest import Connecting
from tests.embedded import NatsServer, RedisServer
from tests.integration.library_search.lab import Search, StandIn, Truth, a_search, callers_are_known, known
from tests.integration.real_parts import until
from tests.integration.team_lifecycle.lab import ADMIN, Lifecycle, a_lifecycle
from tests.postgres import PostgresServer
from tests.waiting import eventually

from library_search.handlers.follow_libraries import FILLED_AGAIN, NOT_READABLE
from pallas_bus.reads import read
from pallas_contracts.auth import LifecycleChanged
from pallas_contracts.catalog import LIFECYCLE, SEARCH

EVERY = tuple(f"l{number}" for number in range(10))


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for unsent events, and for what has become of the stream, many times a second."""
    monkeypatch.setattr("pallas_outbox.relay.POLL_SECONDS", 0.05)
    monkeypatch.setattr("pallas_bus.follow.POLL_SECONDS", 0.1)


@pytest.fixture
async def lifecycle(postgres: PostgresServer, nats_server: NatsServer, tmp_path: Path) -> AsyncGenerator[Lifecycle]:
    """A running team-lifecycle."""
    with RedisServer(tmp_path / "redis") as redis:
        addresses = {"postgres_url": await postgres.new_database(), "redis_url": redis.url, "nats_url": nats_server.url}
        async with a_lifecycle(**addresses) as lifecycle:
            yield lifecycle


def erase_store(server: NatsServer) -> None:
    """Delete the stored data of a stopped broker."""
    for stored in server.folder.iterdir():
        if stored.is_dir():
            shutil.rmtree(stored)


async def create_library(lifecycle: Lifecycle, callers: StandIn, uid: str) -> None:
    """Create a library that the resolver's stand-in knows by its identity."""
    await lifecycle.library(uid, "ws")
    changes = (await lifecycle.admin.get(f"{ADMIN}/changes?limit=1000")).json()["items"]
    callers.identities |= {each["id"]: each["data"]["identity"] for each in changes if each["action"] == "created"}


async def delete_library(lifecycle: Lifecycle, uid: str) -> None:
    """Remove a library."""
    assert (await lifecycle.admin.delete(f"{ADMIN}/libraries/{uid}")).status_code == 204


async def until_listed(search: Search, *uids: str) -> None:
    """Wait until exactly these libraries are listed to a caller that may read all."""

    async def same() -> bool:
        libraries = (await search.call("ann", "list_libraries"))["libraries"]
        return {line["library"] for line in libraries} == set(uids)

    await until(same, within=20)


async def libraries_found(search: Search) -> set[str]:
    """The libraries in which a search finds passages."""
    return {passage["library"] for passage in (await search.call("ann", "search", query="page"))["results"]}


async def change_numbers(bus: Connecting, server: NatsServer) -> list[int]:
    """The numbers of all changes in the stream."""
    reader = await bus(LIFECYCLE, url=server.url)
    return [
        LifecycleChanged.model_validate_json(record.data).number
        async for record in read(reader, "CHANGES", "pallas.v1.lifecycle.>")
    ]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("running", [True, False], ids=["while it runs", "while it does not run"])
async def test_after_the_broker_lost_its_store_the_search_has_exactly_the_existing_libraries(
    lifecycle: Lifecycle,
    environ: dict[str, str],
    callers: StandIn,
    bus: Connecting,
    nats_server: NatsServer,
    running: bool,
) -> None:
    callers.libraries["ann"] = EVERY
    async with a_search(environ) as search:
        for uid in ("l0", "l1", "l2"):
            await create_library(lifecycle, callers, uid)
            await search.document(uid, "page.md", f"# Page\nA page of {uid}.\n")
        if running:
            await _erase_store_during_changes(lifecycle, callers, bus, nats_server)
            await _assert_search_is_complete(lifecycle, callers, search, bus, nats_server)
    if not running:
        await _erase_store_during_changes(lifecycle, callers, bus, nats_server)
        async with a_search(environ) as search:
            await _assert_search_is_complete(lifecycle, callers, search, bus, nats_server)


async def _erase_store_during_changes(
    lifecycle: Lifecycle, callers: StandIn, bus: Connecting, server: NatsServer
) -> None:
    await asyncio.to_thread(server.stop)
    await delete_library(lifecycle, "l0")
    await create_library(lifecycle, callers, "l3")
    erase_store(server)
    await asyncio.to_thread(server.start)
    await callers_are_known(await bus(SEARCH, url=server.url))


async def _assert_search_is_complete(
    lifecycle: Lifecycle, callers: StandIn, search: Search, bus: Connecting, server: NatsServer
) -> None:
    await search.connected()
    await until_listed(search, "l1", "l2", "l3")
    await eventually(lambda: search.process.probes.missing() == {})
    assert await libraries_found(search) == {"l1", "l2"}
    assert (await search.call("ann", "get_health"))["status"] == "ok"
    await create_library(lifecycle, callers, "l4")
    await delete_library(lifecycle, "l1")
    await until_listed(search, "l2", "l3", "l4")
    assert await libraries_found(search) == {"l2"}
    await eventually(lambda: lifecycle.measured("pallas_lifecycle_unsent_events") == 0)
    stored = await change_numbers(bus, server)
    assert stored == list(range(1, len(stored) + 1))


async def test_a_deleted_stream_is_recreated_and_refilled_by_a_connected_relay(
    lifecycle: Lifecycle, environ: dict[str, str], callers: StandIn, bus: Connecting, nats_server: NatsServer
) -> None:
    callers.libraries["ann"] = EVERY
    async with a_search(environ) as search:
        await create_library(lifecycle, callers, "l0")
        await until_listed(search, "l0")
        operator = await bus("test", url=nats_server.url)
        await operator.api("STREAM.DELETE.CHANGES", {})
        await create_library(lifecycle, callers, "l1")
        await delete_library(lifecycle, "l0")
        await until_listed(search, "l1")
        stored = await change_numbers(bus, nats_server)
        assert stored == list(range(1, len(stored) + 1))


async def test_the_search_reports_degraded_health_until_a_lost_stream_is_refilled(
    search: Search, truth: Truth, callers: StandIn
) -> None:
    async def until_health(message: str | None) -> None:
        async def is_reported() -> bool:
            health = await search.call("look", "get_health")
            return (health["status"], health.get("message")) == ("degraded" if message else "ok", message)

        await until(is_reported)

    await truth.publish("created", "l0")
    await truth.publish("created", "l1")
    await known(search, callers, "l0", "l1")
    await until_health(None)
    await truth.bus.api("STREAM.DELETE.CHANGES", {})
    await until_health(NOT_READABLE)
    await truth.declare()
    await until_health(FILLED_AGAIN)
    await truth.publish("created", "l0", number=1)
    assert set(search.process.probes.missing()) == {"changes"}
    await truth.publish("created", "l1", number=2)
    await until_health(None)
    await known(search, callers, "l0", "l1")


async def test_after_a_restart_with_its_store_the_stream_is_not_read_from_the_beginning(
    search: Search,
    truth: Truth,
    callers: StandIn,
    nats_server: NatsServer,
    bus: Connecting,
    caplog: pytest.LogCaptureFixture,
) -> None:
    callers.libraries["ann"] = ()
    await truth.publish("created", "l0")
    await known(search, callers, "l0")
    await asyncio.to_thread(nats_server.restart, kill=True)
    await callers_are_known(await bus(SEARCH, url=nats_server.url))
    await eventually(lambda: truth.bus.breaks > 0 and truth.bus.connected)
    await search.connected()
    await truth.publish("created", "l1")
    await known(search, callers, "l0", "l1")
    assert "from the beginning" not in caplog.text
