"""Libraries follow the events of team-lifecycle. Each event is processed once, also when processes restart."""

import pytest
from tests.conftest import Connecting
from tests.embedded import NatsServer
from tests.integration.library_search.lab import Search, StandIn, Truth, a_search, callers_are_known, known
from tests.integration.real_parts import until
from tests.waiting import eventually

from library_search.model import FileText
from library_search.reading.reader import Reader
from pallas_contracts.catalog import SEARCH


async def names(search: Search) -> dict[str, str]:
    """The libraries that `ann` lists: names by uid."""
    libraries = (await search.call("ann", "list_libraries"))["libraries"]
    return {line["library"]: line["name"] for line in libraries}


@pytest.fixture
def ann(callers: StandIn) -> str:
    """A caller that may read all libraries `l0` to `l29`."""
    callers.libraries["ann"] = tuple(f"l{number}" for number in range(30))
    return "ann"


async def test_events_from_before_and_after_the_start_are_processed(
    environ: dict[str, str], truth: Truth, callers: StandIn, ann: str
) -> None:
    for number in range(3):
        await truth.publish("created", f"l{number}")
    async with a_search(environ) as search:
        await known(search, callers, "l0", "l1", "l2")
        await truth.publish("renamed", "l0", name="Other", workspace_id="ws")
        await truth.publish("deleted", "l1")
        await truth.publish("moved", "l2", name="L2", workspace_id="ws", before=None)

        async def are_processed() -> bool:
            return await names(search) == {"l0": "Other", "l2": "L2"}

        await until(are_processed)
        await eventually(lambda: search.process.probes.missing() == {})


async def test_deleting_a_library_deletes_its_documents(search: Search, truth: Truth, ann: str) -> None:
    await truth.publish("created", "l0")
    await search.document("l0", "a.txt", "Cats.")
    assert len((await search.call(ann, "search", query="cats"))["results"]) == 1
    await truth.publish("deleted", "l0")

    async def none_is_listed() -> bool:
        return await names(search) == {}

    await until(none_is_listed)
    await truth.publish("created", "l0")
    await until(lambda: _has(search, "l0"))
    assert (await search.call(ann, "search", query="cats"))["results"] == []


async def test_documents_of_a_library_under_another_identity_are_not_found(
    search: Search, truth: Truth, callers: StandIn, ann: str
) -> None:
    await truth.publish("created", "l0", name="Old", identity="one")
    await truth.publish("created", "l1")
    callers.identities["l0"] = "one"
    document = await search.document("l0", "a.txt", "Cats.")
    await search.document("l1", "b.txt", "Cats.")
    await truth.publish("renamed", "l0", name="Renamed", identity="one")
    await until(lambda: _has(search, "l1"))

    async def shown() -> set[str]:
        lists = {"search": "results", "list_libraries": "libraries", "list_collections": "collections"}
        tools = [
            (await search.call(ann, tool, "auto", **({"query": "cats"} if tool == "search" else {})))[name]
            for tool, name in {**lists, "list_items": "items"}.items()
        ]
        sets = [{line["library"] for line in lines} for lines in tools]
        async with search.client(ann) as client:
            results = [
                await client.call_tool("get_document", {"document": document}),
                await client.call_tool("get_chunk", {"chunk": f"{document}:0"}),
            ]
        assert all(each == sets[0] for each in sets)
        assert {result.is_error for result in results} == {"l0" not in sets[0]}
        return sets[0]

    assert await shown() == {"l0", "l1"}
    callers.identities["l0"] = "two"
    assert await shown() == {"l1"}
    callers.identities.clear()
    assert await shown() == {"l1"}
    callers.identities["l0"] = "two"
    # The deletion was missed, but the new identity deletes the old documents too.
    await truth.publish("created", "l0", name="New", identity="two")
    await until(lambda: _has(search, "l0"))
    assert (await search.call(ann, "search", query="cats", libraries=["l0"]))["results"] == []


async def test_a_document_is_refused_when_its_library_is_recreated_while_the_file_is_read(
    search: Search, truth: Truth, ann: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await truth.publish("created", "l0", name="Old", identity="one")
    await until(lambda: _known(search, "l0", "a.txt"))
    read = Reader.read

    async def replaced(reader: Reader, content: bytes, kind: str) -> FileText:
        await truth.publish("deleted", "l0")
        await truth.publish("created", "l0", name="New", identity="two")
        await truth.publish("created", "l1")
        await until(lambda: _has(search, "l1"))
        return await read(reader, content, kind)

    monkeypatch.setattr(Reader, "read", replaced)
    refused = await search.put("l0", "b.txt", "Dogs.")
    assert (refused.status_code, refused.json()["code"]) == (404, "no_library")


async def _known(search: Search, uid: str, path: str) -> bool:
    return (await search.put(uid, path, "Text.")).status_code in (200, 201)


async def _has(search: Search, uid: str) -> bool:
    return uid in await names(search)


async def test_replicas_share_the_events_and_ignore_old_ones(
    environ: dict[str, str], truth: Truth, callers: StandIn, ann: str
) -> None:
    async with a_search(environ) as one, a_search(environ) as other:
        await truth.publish("created", "l0", name="First")
        await truth.publish("renamed", "l0", name="Second")
        await truth.publish("created", "l0", number=1, name="First")
        await truth.publish("created", "l1", number=3, name="Third")
        for search in (one, other):
            await until(lambda search=search: _has(search, "l1"))
            assert await names(search) == {"l0": "Second", "l1": "Third"}


async def test_an_unreadable_event_does_not_block_later_ones(
    search: Search, truth: Truth, ann: str, caplog: pytest.LogCaptureFixture
) -> None:
    await truth.bus.put("pallas.v1.lifecycle.library.created", b"no json")
    await truth.publish("created", "l0")
    await until(lambda: _has(search, "l0"))
    assert "a change of a library cannot be decoded" in caplog.text


async def test_no_event_is_lost_when_the_broker_restarts(
    environ: dict[str, str], truth: Truth, callers: StandIn, ann: str, nats_server: NatsServer, bus: Connecting
) -> None:
    async with a_search(environ) as search:
        await truth.publish("created", "l0")
        await until(lambda: _has(search, "l0"))
        nats_server.restart(kill=True)
        await callers_are_known(await bus(SEARCH, url=nats_server.url))
        await eventually(lambda: truth.bus.breaks > 0 and truth.bus.connected)
        await truth.publish("created", "l1")
        await eventually(lambda: search.process.probes.missing() == {})
        await until(lambda: _has(search, "l1"))


async def test_without_the_stream_it_serves_callers_and_reports_that_changes_are_missing(
    environ: dict[str, str], nats_server: NatsServer, callers: StandIn
) -> None:
    callers.libraries["ann"] = ()
    async with a_search(environ) as search:
        health = await search.call("ann", "get_health")
        assert (health["status"], health["message"]) == ("degraded", "changes of libraries have not been read yet")
        assert set(search.process.probes.missing()) == {"changes"}
