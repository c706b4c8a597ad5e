"""Libraries come and go with the events of team-lifecycle, each taken once, whatever is restarted meanwhile."""

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
    """What `ann` finds."""
    libraries = (await search.call("ann", "list_libraries"))["libraries"]
    return {line["library"]: line["name"] for line in libraries}


@pytest.fixture
def ann(callers: StandIn) -> str:
    """A caller that may read whatever there is."""
    callers.libraries["ann"] = tuple(f"l{number}" for number in range(30))
    return "ann"


async def test_what_happened_before_the_start_and_what_happens_now_is_taken(
    environ: dict[str, str], truth: Truth, callers: StandIn, ann: str
) -> None:
    for number in range(3):
        await truth.say("created", f"l{number}")
    async with a_search(environ) as search:
        await known(search, callers, "l0", "l1", "l2")
        await truth.say("renamed", "l0", name="Other", workspace_id="ws")
        await truth.say("deleted", "l1")
        await truth.say("moved", "l2", name="L2", workspace_id="ws", before=None)

        async def taken() -> bool:
            return await names(search) == {"l0": "Other", "l2": "L2"}

        await until(taken)
        await eventually(lambda: search.process.probes.missing() == {})


async def test_a_library_that_goes_takes_its_documents_with_it(search: Search, truth: Truth, ann: str) -> None:
    await truth.say("created", "l0")
    await search.document("l0", "a.txt", "Cats.")
    assert len((await search.call(ann, "search", query="cats"))["results"]) == 1
    await truth.say("deleted", "l0")

    async def gone() -> bool:
        return await names(search) == {}

    await until(gone)
    await truth.say("created", "l0")
    await until(lambda: _has(search, "l0"))
    assert (await search.call(ann, "search", query="cats"))["results"] == []


async def test_documents_of_a_library_that_is_known_by_another_identity_are_not_found(
    search: Search, truth: Truth, callers: StandIn, ann: str
) -> None:
    await truth.say("created", "l0", name="Old", identity="one")
    await truth.say("created", "l1")
    callers.identities["l0"] = "one"
    document = await search.document("l0", "a.txt", "Cats.")
    await search.document("l1", "b.txt", "Cats.")
    await truth.say("renamed", "l0", name="Renamed", identity="one")
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
    # The deletion was missed: what was there goes nevertheless.
    await truth.say("created", "l0", name="New", identity="two")
    await until(lambda: _has(search, "l0"))
    assert (await search.call(ann, "search", query="cats", libraries=["l0"]))["results"] == []


async def test_a_document_that_is_read_while_its_library_is_made_anew_is_not_taken(
    search: Search, truth: Truth, ann: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await truth.say("created", "l0", name="Old", identity="one")
    await until(lambda: _known(search, "l0", "a.txt"))
    read = Reader.read

    async def replaced(reader: Reader, content: bytes, kind: str) -> FileText:
        await truth.say("deleted", "l0")
        await truth.say("created", "l0", name="New", identity="two")
        await truth.say("created", "l1")
        await until(lambda: _has(search, "l1"))
        return await read(reader, content, kind)

    monkeypatch.setattr(Reader, "read", replaced)
    refused = await search.put("l0", "b.txt", "Dogs.")
    assert (refused.status_code, refused.json()["code"]) == (404, "no_library")


async def _known(search: Search, uid: str, path: str) -> bool:
    return (await search.put(uid, path, "Text.")).status_code in (200, 201)


async def _has(search: Search, uid: str) -> bool:
    return uid in await names(search)


async def test_replicas_share_the_work_and_an_event_that_was_sent_twice_is_taken_once(
    environ: dict[str, str], truth: Truth, callers: StandIn, ann: str
) -> None:
    async with a_search(environ) as one, a_search(environ) as other:
        await truth.say("created", "l0", name="First")
        await truth.say("renamed", "l0", name="Second")
        await truth.say("created", "l0", number=1, name="First")
        await truth.say("created", "l1", number=3, name="Third")
        for search in (one, other):
            await until(lambda search=search: _has(search, "l1"))
            assert await names(search) == {"l0": "Second", "l1": "Third"}


async def test_an_event_that_cannot_be_read_holds_nothing_up(
    search: Search, truth: Truth, ann: str, caplog: pytest.LogCaptureFixture
) -> None:
    await truth.bus.put("pallas.v1.lifecycle.library.created", b"no json")
    await truth.say("created", "l0")
    await until(lambda: _has(search, "l0"))
    assert "a change of a library cannot be decoded" in caplog.text


async def test_a_broker_that_was_away_costs_no_event(
    environ: dict[str, str], truth: Truth, callers: StandIn, ann: str, nats_server: NatsServer, bus: Connecting
) -> None:
    async with a_search(environ) as search:
        await truth.say("created", "l0")
        await until(lambda: _has(search, "l0"))
        nats_server.restart(kill=True)
        await callers_are_known(await bus(SEARCH, url=nats_server.url))
        await eventually(lambda: truth.bus.breaks > 0 and truth.bus.connected)
        await truth.say("created", "l1")
        await eventually(lambda: search.process.probes.missing() == {})
        await until(lambda: _has(search, "l1"))


async def test_without_the_stream_it_serves_and_says_what_is_missing(
    environ: dict[str, str], nats_server: NatsServer, callers: StandIn
) -> None:
    callers.libraries["ann"] = ()
    async with a_search(environ) as search:
        health = await search.call("ann", "get_health")
        assert (health["status"], health["message"]) == ("degraded", "changes of libraries have not been read yet")
        assert set(search.process.probes.missing()) == {"changes"}
