"""What another registry answers: entries that cannot be used are left out, and no answer breaks the listing."""

import gzip
import json
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from pallas_contracts.agents import AgentDefinition
from pallas_contracts.errors import Rejected
from pallas_jsonrpc.strict_json import MOST_VALUES
from registry.catalogue import Catalogue, Cell, read_entries
from registry.document import FOREIGN
from registry.listing import LARGEST_BODY, LARGEST_FOREIGN, MOST_FOREIGN, Listed, Listing, compile_listing
from registry.settings import RegistrySettings
from workspaces.registries import fetch, read

OFFICIAL = "io.modelcontextprotocol.registry/official"
HEALTH = "io.pallas/health"


def _entry(name: str = "x.west/pallas-one", at: str = "2026-03-12T10:00:00.000Z", **meta: Any) -> dict[str, Any]:
    return {"server": {"name": name, "version": "1"}, "_meta": {OFFICIAL: {"updatedAt": at}, **meta}}


def _read(*entries: Any) -> list[Listed]:
    return list(read_entries(json.dumps({"servers": entries}).encode(), "http://west"))


def _own(agent: str = "one", **fields: Any) -> AgentDefinition:
    given = {"team": "here", "agent": agent, "title": "One", "namespace": "x.here", "updated_at": datetime.now(UTC)}
    return AgentDefinition.model_validate(given | fields)


def _compile(others: list[Listed], *own: AgentDefinition) -> Listing:
    agents = {f"here.{one.agent}": one for one in own}
    return compile_listing(agents, {}, {}, public_url="http://here", others=others)


def _names(body: bytes) -> list[str]:
    return [entry["server"]["name"] for entry in json.loads(body)["servers"]]


@pytest.mark.parametrize(
    "entry",
    [
        None,
        "x",
        [],
        {},
        {"server": {}, "_meta": {}},
        _entry(name="no name"),
        _entry(at="yesterday"),
        _entry(at="2026-03-12T10:00:00"),
        _entry(**{HEALTH: "ok"}),
        {**_entry(), "_meta": [OFFICIAL]},
        {**_entry(), "server": {"name": "x.west/pallas-one", "version": 1}},
    ],
    ids=str,
)
def test_an_entry_that_cannot_be_used_is_left_out_and_the_others_are_listed(entry: Any) -> None:
    assert [listed.name for listed in _read(entry, _entry())] == ["x.west/pallas-one"]


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"servers":1}', b'{"servers":[NaN]}', b"[" * 100_000])
def test_what_is_not_the_document_of_a_registry_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="is not the document of a registry"):
        read_entries(body, "http://west")


def test_of_a_name_in_several_cells_the_own_agent_is_listed_then_that_of_the_cell_that_is_named_first() -> None:
    own, name = _own(), "x.west/pallas-two"
    first, last = _read(_entry(name, at="2026-01-01T00:00:00Z"), _entry(name, at="2026-02-01T00:00:00Z"))
    [same] = _read(_entry("x.here/pallas-one", at="2099-01-01T00:00:00Z"))
    listing = _compile([first, last, same], own)
    assert [entry.updated_at for entry in listing.servers] == [own.updated_at, first.updated_at]
    assert _names(listing.own) == ["x.here/pallas-one"]


def test_what_another_cell_lists_is_marked_whatever_it_says_itself() -> None:
    says: dict[str, Any] = {FOREIGN: None}
    listing = _compile(_read(_entry("x.west/pallas-two"), _entry("x.west/pallas-three", **says)), _own())
    marks = {one["server"]["name"]: one["_meta"].get(FOREIGN) for one in json.loads(listing.body)["servers"]}
    assert marks == {"x.here/pallas-one": None, "x.west/pallas-two": True, "x.west/pallas-three": True}
    assert read.FOREIGN == FOREIGN, "the console looks for this key"


async def test_an_agent_of_another_cell_with_the_id_of_an_own_one_is_not_listed_and_own_ones_come_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    catalogue = Catalogue("http://here", [await _asked("west", _entry("a.a/pallas-one"), _entry("a.a/pallas-two"))])
    catalogue.agent_changed("here.one", _own())
    for _ in range(2):
        assert _names(catalogue.listing().body) == ["x.here/pallas-one", "a.a/pallas-two"]
        assert [entry.name for entry in catalogue.listing().servers] == ["a.a/pallas-two", "x.here/pallas-one"]
        catalogue.cell_changed()
    [record] = [record for record in caplog.records if "have their names" in record.message]
    assert vars(record)["first"] == ["a.a/pallas-one"]


async def test_agents_of_all_other_cells_have_a_limit_of_their_number_and_what_is_over_is_told() -> None:
    cells = [
        await _asked(name, *(_entry(f"x.{name}/pallas-{name}-{number:03}") for number in range(MOST_FOREIGN - 1)))
        for name in ("west", "north")
    ]
    catalogue = Catalogue("http://here", cells)
    catalogue.agent_changed("here.one", _own())
    assert len(catalogue.listing().servers) == MOST_FOREIGN + 1
    assert catalogue.notes() == f"http://north: {MOST_FOREIGN - 2} agents are not listed, there are too many"


async def test_large_entries_of_other_cells_leave_room_for_all_own_ones() -> None:
    cell = await _asked("west", *(_large(f"x.west/pallas-west-{number}", 100_000) for number in range(60)))
    catalogue = Catalogue("http://here", [cell])
    assert len(catalogue.listing().body) <= LARGEST_FOREIGN
    assert catalogue.notes() == "http://west: 50 agents are not listed, there are too many"
    title = "x" * 100
    for number in range(LARGEST_BODY // 1000):
        catalogue.agent_changed(f"here.{number}", _own(f"{number}", title=title, description=title))
    listing = catalogue.listing()
    assert LARGEST_BODY - LARGEST_FOREIGN < len(listing.own) < len(listing.body) <= LARGEST_BODY < fetch.LARGEST


def _large(name: str, size: int) -> dict[str, Any]:
    return _entry(name, extra="x" * size)


@pytest.mark.parametrize(
    ("body", "headers", "fault"),
    [
        (gzip.compress(b'{"servers":[]}'), {"content-encoding": "gzip"}, "compressed"),
        (b'{"servers":[' + b"0," * MOST_VALUES + b"0]}", {}, "has more than 200,000 values"),
    ],
    ids=["compressed", "many values"],
)
async def test_an_answer_of_another_registry_that_would_cost_much_to_read_is_refused(
    body: bytes, headers: dict[str, str], fault: str
) -> None:
    asked = list[httpx2.Request]()
    cell = await _answered("west", body, headers, asked)
    assert fault in str(cell.fault)
    assert cell.entries == ()
    assert [request.headers["accept-encoding"] for request in asked] == ["identity"]


async def _asked(name: str, *entries: dict[str, Any]) -> Cell:
    """A cell whose registry has answered with these entries."""
    return await _answered(name, json.dumps({"servers": entries}).encode(), {}, [])


async def _answered(name: str, body: bytes, headers: dict[str, str], asked: list[httpx2.Request]) -> Cell:
    async def parts() -> AsyncGenerator[bytes]:
        yield body

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        return httpx2.Response(200, content=parts(), headers=headers)

    cell = Cell(f"http://{name}")
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        await cell.ask(http)
    return cell


@pytest.mark.parametrize(
    "value", ["west:8080", "ftp://west", "http://u:secret@west", "http://west?x=1", "http://west:99999"]
)
def test_an_address_that_is_none_is_refused_without_showing_it(value: str) -> None:
    with pytest.raises(Rejected, match="PALLAS_REGISTRY_ALSO") as refused:
        RegistrySettings.from_env({"PALLAS_REGISTRY_ALSO": f"http://fine,{value}"})
    assert value not in refused.value.message
