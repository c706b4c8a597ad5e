"""`pallas users` and `pallas libraries` against a running service."""

import pytest
from tests.integration.pallas_command import Pallas
from tests.requirements import requirement

from pallas_cli.rest import client


async def test_users_are_added_once_deactivated_and_activated(pallas: Pallas) -> None:
    assert (await pallas.done("users", "list")).out == "There are no users.\n"
    assert (await pallas.done("users", "create", "ann@example.com")).out == "Created user ann@example.com.\n"
    assert (await pallas.done("users", "create", "ann@example.com")).out == "User ann@example.com already exists.\n"
    assert (await pallas.done("users", "create", "bob", "--json")).json["new"] is True
    result = await pallas.done("users", "deactivate", "bob")
    assert result.out == "User bob is inactive: all tokens of the user are refused.\n"
    assert [row[:2] for row in (await pallas.done("users", "list")).rows] == [
        ["ann@example.com", "active"],
        ["bob", "inactive"],
    ]
    first = await pallas.done("users", "list", "--limit", "1")
    assert ([row[0] for row in first.rows], first.err) == (["ann@example.com"], "more: --after ann@example.com\n")
    rest = await pallas.done("users", "list", "--limit", "1", "--after", "ann@example.com", "--json")
    assert ([row["name"] for row in rest.json], rest.err) == (["bob"], "")
    assert (await pallas.done("users", "show", "bob")).out.splitlines()[:2] == ["bob", "  state: inactive"]
    assert await pallas.refused("users", "show", "eve") == ["pallas: there is no user 'eve'"]
    assert (await pallas.done("users", "activate", "bob", "--json")).json["active"] is True
    assert (await pallas.done("users", "scopes", "bob")).out == "User bob neither owns nor manages a library.\n"
    assert (await pallas.done("users", "scopes", "bob", "--json")).json == []


@requirement("A-4.1.3")
async def test_libraries_are_added_renamed_moved_and_removed(pallas: Pallas) -> None:
    await pallas.done("users", "create", "ann")
    words = ("libraries", "create", "papers", "--name", "All papers", "--workspace", "ws_a", "--owner", "ann")
    assert (await pallas.done(*words)).out == "Created library papers.\n"
    assert (await pallas.done(*words)).out == "Library papers already exists.\n"
    other = ["pallas: library 'papers' exists already, with another name or workspace"]
    assert await pallas.refused("libraries", "create", "papers") == other
    assert (await pallas.done("libraries", "create", "notes", "--json")).json["name"] == "notes"

    assert (await pallas.done("libraries", "rename", "papers", "Papers")).out == "Renamed library papers to Papers.\n"
    assert (await pallas.done("libraries", "move", "notes", "ws_b")).out == "Library notes is now in workspace ws_b.\n"
    [listed] = (await pallas.done("libraries", "list", "--workspace", "ws_a")).rows
    assert listed[:3] == ["papers", "Papers", "ws_a"]
    assert (await pallas.done("libraries", "move", "notes", "--none")).out == (
        "Library notes is now in no workspace: no team can read it.\n"
    )
    assert await pallas.refused("libraries", "move", "notes", code=2) == ["pallas: name WORKSPACE, or pass --none"]
    assert (await pallas.done("libraries", "delete", "papers", "--yes")).out == "Deleted library papers.\n"
    assert [row[0] for row in (await pallas.done("libraries", "list")).rows] == ["notes"]


@requirement("A-4.1.2", "A-4.1.6")
async def test_revoking_a_role_removes_the_library_from_the_tokens_that_needed_it(pallas: Pallas) -> None:
    for user in ("ann", "bob"):
        await pallas.done("users", "create", user)
    await pallas.done("libraries", "create", "papers", "--owner", "ann")
    granted = await pallas.done("libraries", "grant", "papers", "bob", "manager")
    assert granted.out == "User bob is now manager of library papers.\n"
    await pallas.done("tokens", "create", "Cline", "--user", "bob", "--library", "papers")
    assert [row[:3] for row in (await pallas.done("libraries", "members", "papers")).rows] == [
        ["papers", "ann", "owner"],
        ["papers", "bob", "manager"],
    ]
    revoked = await pallas.done("libraries", "revoke", "papers", "bob", "manager", "--yes")
    assert revoked.out == "User bob is no longer manager of library papers.\n"
    assert (await pallas.done("libraries", "members", "--user", "bob")).out == "No members found.\n"
    assert (await pallas.done("tokens", "list", "--json")).json[0]["allowed_libraries"] == []

    last = await pallas.refused("libraries", "revoke", "papers", "ann", "owner", "--yes")
    assert last == ["pallas: user 'ann' is the last owner of library 'papers'"]
    held = await pallas.refused("libraries", "revoke", "papers", "bob", "reader", "--yes")
    assert held == ["pallas: user 'bob' is not reader of library 'papers'"]


async def test_a_list_has_the_items_of_all_pages(pallas: Pallas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAGE", 2)
    names = [f"u{number}" for number in range(5)]
    for name in names:
        await pallas.done("users", "create", name)
    assert [user["name"] for user in (await pallas.done("users", "list", "--json")).json] == names
