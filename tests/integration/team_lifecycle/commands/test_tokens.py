"""`pallas tokens` against a running service."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from tests.integration.pallas_command import Pallas
from tests.integration.team_lifecycle.lab import Lifecycle
from tests.requirements import requirement

from pallas_contracts.opaque import is_opaque_token


@pytest.fixture(autouse=True)
async def ann(lifecycle: Lifecycle) -> None:
    """A user who owns `papers`, manages `manuals` and reads `diary`."""
    await lifecycle.user("ann")
    await lifecycle.library("papers", owner="ann")
    for uid, role in (("manuals", "manager"), ("diary", "reader")):
        await lifecycle.library(uid)
        await lifecycle.grant(uid, "ann", role)


@requirement("A-9.6.1", "A-9.6.2")
async def test_issue_prints_only_the_token_and_refuses_libraries_that_its_user_only_reads(pallas: Pallas) -> None:
    assert (await pallas.done("users", "scopes", "ann")).out == "manuals\npapers\n"
    issued = await pallas.done("tokens", "create", "Cline", "--user", "ann", "--library", "papers")
    [token] = (await pallas.done("tokens", "list", "--json")).json
    assert is_opaque_token(issued.out.strip())
    assert issued.err == f"Token {token['id']} of user ann can read papers. It cannot be shown again.\n"
    assert (token["name"], token["user_name"], token["allowed_libraries"]) == ("Cline", "ann", ["papers"])
    assert "token" not in token

    refusal = await pallas.refused(
        *("tokens", "create", "Cline", "--user", "ann", "--library", "papers", "--library", "diary")
    )
    assert refusal == ["pallas: user 'ann' neither owns nor manages 'diary'"]
    assert len((await pallas.done("tokens", "list", "--json")).json) == 1


@requirement("A-3.2.2")
async def test_a_token_is_valid_until_revoked_and_expires_only_if_asked(pallas: Pallas) -> None:
    forever = (await pallas.done("tokens", "create", "one", "--user", "ann", "--json")).json
    begun = datetime.now(UTC)
    month = (await pallas.done("tokens", "create", "two", "--user", "ann", "--expires", "30d", "--json")).json
    assert forever["expires_at"] is None
    assert (
        timedelta() <= datetime.fromisoformat(month["expires_at"]) - begun - timedelta(days=30) < timedelta(minutes=1)
    )
    states = {row[0]: row[-1] for row in (await pallas.done("tokens", "list", "--user", "ann")).rows}
    assert states == {forever["id"]: "valid", month["id"]: "valid"}

    result = await pallas.done("tokens", "delete", forever["id"], "--yes")
    assert result.out == f"Token {forever['id']} is revoked.\n"
    states = {row[0]: row[-1] for row in (await pallas.done("tokens", "list")).rows}
    assert states == {forever["id"]: "revoked", month["id"]: "valid"}
    refusal = await pallas.refused("tokens", "libraries", forever["id"], "--none")
    assert refusal == [f"pallas: token '{forever['id']}' was revoked"]
    assert (await pallas.done("tokens", "list", "--user", "bob")).out == "No tokens found.\n"


async def test_the_libraries_of_a_token_can_be_replaced_or_removed(pallas: Pallas) -> None:
    token = (await pallas.done("tokens", "create", "Cline", "--user", "ann", "--json")).json["id"]
    result = await pallas.done("tokens", "libraries", token, "papers", "manuals")
    assert result.out == f"Token {token} can read manuals, papers.\n"
    assert await pallas.refused("tokens", "libraries", token, code=2) == ["pallas: name LIBRARY..., or pass --none"]
    assert (await pallas.done("tokens", "libraries", token, "--none")).out == f"Token {token} can read nothing.\n"
    assert (await pallas.done("tokens", "list", "--json")).json[0]["allowed_libraries"] == []


async def test_a_bad_token_request_is_refused_with_its_field(pallas: Pallas) -> None:
    issue = ("tokens", "create")
    past = await pallas.refused(*issue, "Cline", "--user", "ann", "--expires", "2020-01-01")
    assert past == ["pallas: expires_at: must be in the future, and at most a hundred years ahead"]
    both = await pallas.refused(*issue, " ", "--user", "a b")
    assert [line.partition(": ")[2].partition(":")[0] for line in both] == ["user", "name"]
    never = await pallas.refused(*issue, "Cline", "--user", "ann", "--expires", "soon", code=2)
    assert never == ["pallas: 'soon' is neither a time span such as 30m, 2h or 7d nor an ISO 8601 time"]
    assert await pallas.refused(*issue, "Cline", "--user", "bob") == ["pallas: there is no user 'bob'"]
    nobody = str(uuid.uuid4())
    assert await pallas.refused("tokens", "delete", nobody, "--yes") == [f"pallas: there is no token '{nobody}'"]
