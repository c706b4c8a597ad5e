"""`pallas teams` against a running service."""

import uuid

import jwt
from tests.integration.pallas_command import Pallas
from tests.integration.team_lifecycle.lab import TEAMS, Lifecycle
from tests.requirements import requirement


def jti_of(text: str) -> str:
    """The jti of a JWT, unverified."""
    return jwt.decode(text, options={"verify_signature": False})["jti"]


async def test_create_prints_only_the_active_jwt_of_the_new_team(pallas: Pallas, lifecycle: Lifecycle) -> None:
    created = await pallas.done("teams", "create", "Kottos")
    [team] = (await pallas.done("teams", "list", "--json")).json
    assert created.err == f"This is the JWT of team {team['id']}. It cannot be shown again.\n"
    assert (team["name"], team["active"], team["workspace_ids"]) == ("Kottos", True, [])
    assert jti_of(created.out.strip()) == team["active_jti"]
    assert (await lifecycle.daedalus.get(f"{TEAMS}{team['id']}/")).json() == team


@requirement("A-7.1.3", "A-13.2.2")
async def test_create_changes_no_existing_team_and_restores_no_deleted_one(pallas: Pallas) -> None:
    team = str(uuid.uuid4())
    first = (await pallas.done("teams", "create", "Kottos", "--id", team, "--json")).json
    assert (first["id"], first["new"]) == (team, True)
    again = await pallas.done("teams", "create", "Mentor", "--id", team)
    assert (again.out, again.err) == (
        "",
        f"Team {team} already exists: active. "
        f"Its JWT cannot be shown again; `pallas teams rotate {team}` makes a new one.\n",
    )
    as_json = (await pallas.done("teams", "create", "Mentor", "--id", team, "--json")).json
    assert (as_json["name"], as_json["active_jti"], as_json["new"]) == ("Kottos", jti_of(first["jwt"]), False)
    assert "jwt" not in as_json

    await pallas.done("teams", "delete", team, "--yes")
    assert await pallas.refused("teams", "create", "Kottos", "--id", team) == [
        f"Team {team} already exists: deleted. A deleted team cannot be restored; create a team with another id."
    ]


@requirement("A-7.4.1")
async def test_rotate_prints_the_new_active_jwt(pallas: Pallas, lifecycle: Lifecycle) -> None:
    team, before = await lifecycle.team()
    rotated = await pallas.done("teams", "rotate", team, "--yes")
    shown = (await pallas.done("teams", "show", team, "--json")).json
    assert jti_of(rotated.out.strip()) == shown["active_jti"] != jti_of(before)
    assert rotated.err == (
        f"This is the new JWT of team {team}; the previous one is now invalid. It cannot be shown again.\n"
    )


async def test_workspaces_are_replaced_and_only_the_option_none_removes_all(
    pallas: Pallas, lifecycle: Lifecycle
) -> None:
    team, _ = await lifecycle.team()
    result = await pallas.done("teams", "workspaces", team, "ws_b", "ws_a")
    assert result.out == f"Team {team} can read workspaces ws_a, ws_b.\n"
    assert (await pallas.done("teams", "workspaces", team, "ws c", "--json")).json == {
        "id": team,
        "workspace_ids": ["ws c"],
    }
    for words in ((), ("ws_a", "--none")):
        refusal = await pallas.refused("teams", "workspaces", team, *words, code=2)
        assert refusal == ["pallas: name WORKSPACE..., or pass --none"]
    assert (await pallas.done("teams", "show", team)).out == (
        f"{team} Kottos: active\n  workspaces: ws c\n"
        f"  active jti: {(await lifecycle.daedalus.get(f'{TEAMS}{team}/')).json()['active_jti']}\n"
    )
    result = await pallas.done("teams", "workspaces", team, "--none")
    assert result.out == f"Team {team} can read nothing: it is paused.\n"


async def test_a_team_can_be_named_by_its_name_if_only_one_has_it(pallas: Pallas, lifecycle: Lifecycle) -> None:
    team, _ = await lifecycle.team()
    assert (await pallas.done("teams", "show", "kottos", "--json")).json["id"] == team
    assert await pallas.refused("teams", "show", "Mentor") == [
        "pallas: no team has the id or name 'Mentor'; there are: Kottos"
    ]
    other, _ = await lifecycle.team()
    [several] = await pallas.refused("teams", "delete", "Kottos", "--yes")
    assert several.startswith("pallas: several teams have the name 'Kottos': ")
    assert {team, other} == set(several.rpartition(": ")[2].split(", "))


async def test_a_deleted_team_is_listed_as_deleted_and_cannot_be_changed(pallas: Pallas, lifecycle: Lifecycle) -> None:
    team, _ = await lifecycle.team("[red]Kottos :smile:")
    await lifecycle.attach(team, "ws_a", "ws_b")
    result = await pallas.done("teams", "delete", team, "--yes")
    assert result.out == f"Team {team} is deleted: its JWT is now invalid.\n"
    listed = await pallas.done("teams", "list")
    assert listed.rows == [[team, "[red]Kottos :smile:", "deleted", "ws_a, ws_b"]]
    for words in (("rotate", team, "--yes"), ("workspaces", team, "ws_a")):
        assert await pallas.refused("teams", *words) == [f"pallas: team '{team}' was deleted"]


async def test_an_unknown_team_is_reported_in_one_line(pallas: Pallas) -> None:
    team = str(uuid.uuid4())
    for words in (("show", team), ("delete", team, "--yes"), ("rotate", team, "--yes"), ("workspaces", team, "ws")):
        assert await pallas.refused("teams", *words) == [f"pallas: there is no team '{team}'"]
    assert (await pallas.done("teams", "list")).out == "There are no teams.\n"
