"""What another registry answers: entries that cannot be used are left out, and no answer breaks the listing."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from pallas_contracts.agents import AgentDefinition
from pallas_contracts.errors import Rejected
from registry.catalogue import read_entries
from registry.listing import Listed, compile_listing
from registry.settings import RegistrySettings

OFFICIAL = "io.modelcontextprotocol.registry/official"
HEALTH = "io.pallas/health"


def _entry(name: str = "x.west/pallas-one", at: str = "2026-03-12T10:00:00.000Z", **meta: Any) -> dict[str, Any]:
    return {"server": {"name": name, "version": "1"}, "_meta": {OFFICIAL: {"updatedAt": at}, **meta}}


def _read(*entries: Any) -> list[Listed]:
    return list(read_entries(json.dumps({"servers": entries}).encode()))


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
        list(read_entries(body))


def test_of_a_name_in_several_cells_the_own_agent_is_listed_then_that_of_the_cell_that_is_named_first() -> None:
    own = AgentDefinition(team="here", agent="one", title="One", namespace="x.here", updated_at=datetime.now(UTC))
    first, last = _read(_entry(at="2026-01-01T00:00:00Z"), _entry(at="2026-02-01T00:00:00Z"))
    [same] = _read(_entry(name="x.here/pallas-one", at="2099-01-01T00:00:00Z"))
    listing = compile_listing({"here.one": own}, {}, {}, public_url="http://here", others=(first, last, same))
    assert [entry.updated_at for entry in listing.servers] == [own.updated_at, first.updated_at]
    assert [entry["server"]["name"] for entry in json.loads(listing.own)["servers"]] == ["x.here/pallas-one"]


@pytest.mark.parametrize(
    "value", ["west:8080", "ftp://west", "http://u:secret@west", "http://west?x=1", "http://west:99999"]
)
def test_an_address_that_is_none_is_refused_without_showing_it(value: str) -> None:
    with pytest.raises(Rejected, match="PALLAS_REGISTRY_ALSO") as refused:
        RegistrySettings.from_env({"PALLAS_REGISTRY_ALSO": f"http://fine,{value}"})
    assert value not in refused.value.message
