"""The migration of existing instances (auth contract, sections 9.5 and 14.2): `provision_teams`."""

import asyncio
import os
import sys
from dataclasses import dataclass

import pytest
from tests.integration.workspaces.control.world import World
from tests.integration.workspaces.lab import API, environment
from tests.workspaces_world.mnemosyne import PASSWORD

NOT_YET = "update pallas_instances set team_jwt_encrypted = null, pallas_team_mnemosyne_status = {} where id = :id"


@dataclass(frozen=True)
class Printed:
    """What a run of the command printed, and its exit code. `rows` are name, status and JWT."""

    code: int
    rows: list[tuple[str, str, str]]
    errors: str


async def provision_teams(world: World, **settings: str) -> Printed:
    """Run the command in a process of its own."""
    given = {"teams_url": world.mnemosyne.base, "teams_password": PASSWORD, **world.lab.settings, **settings}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "workspaces.provision_teams",
        env={**os.environ, **environment(**given)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    heading, *lines = out.decode().splitlines() or [""]
    columns = [heading.index(word) for word in heading.split()]
    return Printed(process.returncode or 0, [_cells(line, columns) for line in lines], err.decode())


def _cells(line: str, columns: list[int]) -> tuple[str, str, str]:
    _, name, status, jwt = (line[start:end].strip() for start, end in zip(columns, [*columns[1:], None], strict=True))
    return name, status, jwt


async def in_every_state(world: World) -> dict[str, str]:
    """Six instances: three as an upgrade leaves them, one provisioned, one failed, one deleted in Mnemosyne."""
    names = ("Null one", "Null two", "Null three", "Provisioned", "Failed", "Gone")
    instances = {name: await world.provisioned(name) for name in names}
    await world.until_quiet()
    for name in names[:3]:
        await world.execute(NOT_YET.format("null"), id=instances[name])
        del world.mnemosyne.teams[instances[name]]
    for name in ("Failed", "Gone"):
        await world.execute(NOT_YET.format("'failed'"), id=instances[name])
    world.mnemosyne.teams[instances["Gone"]].active = False
    return instances


@pytest.mark.requirement("A-14.2.4", "A-9.5.1", "A-9.5.2", "A-4.2.2")
async def test_provision_teams_is_idempotent(world: World) -> None:
    instances = await in_every_state(world)
    first = await provision_teams(world)
    assert first.code == 1, first.errors
    assert [(name, status) for name, status, _ in first.rows] == [
        ("Failed", "provisioned"),
        ("Gone", "failed: the team was deleted in Mnemosyne, which cannot be undone; register the instance anew"),
        ("Null one", "provisioned"),
        ("Null three", "provisioned"),
        ("Null two", "provisioned"),
        ("Provisioned", "skipped: provisioned"),
    ]
    for name, status, jwt in first.rows:
        assert (jwt != "") == (status == "provisioned")
        assert not jwt or world.mnemosyne.accepts(jwt)
        expected = {"provisioned": "revealed", "skipped: provisioned": "ready"}.get(status)
        assert expected is None or (await world.instance(instances[name]))["jwt"] == expected
    answer = await world.http.post(f"{API}/pallas/{instances['Failed']}/reveal")
    assert answer.json()["code"] == "already_revealed"

    await world.http.delete(f"{API}/pallas/{instances['Gone']}")
    await world.until_quiet()
    asked = world.mnemosyne.counted()
    second = await provision_teams(world)
    assert second.code == 0
    assert {status for _, status, _ in second.rows} == {"skipped: provisioned"}
    assert {jwt for *_, jwt in second.rows} == {""}
    assert world.mnemosyne.counted() == asked


async def test_two_runs_at_the_same_time_provision_each_team_once(world: World) -> None:
    instances = [await world.provisioned(f"Team {number}") for number in range(4)]
    await world.until_quiet()
    await world.execute("update pallas_instances set team_jwt_encrypted = null, pallas_team_mnemosyne_status = null")
    world.mnemosyne.teams.clear()
    world.mnemosyne.asked.clear()
    both = await asyncio.gather(provision_teams(world), provision_teams(world))
    assert [one.code for one in both] == [0, 0]
    assert (world.mnemosyne.counted()["POST"], world.mnemosyne.counted()["ROTATE"]) == (len(instances), 0)
    printed = [jwt for one in both for *_, jwt in one.rows if jwt]
    assert len(printed) == len(instances)
    assert all(world.mnemosyne.accepts(jwt) for jwt in printed)


async def test_what_is_missing_is_named(world: World) -> None:
    without = await provision_teams(world, teams_password="")
    assert (without.code, "PALLAS_TEAMS_PASSWORD" in without.errors) == (2, True)
    instance = await world.provisioned()
    await world.execute(NOT_YET.format("null"), id=instance)
    wrong = await provision_teams(world, teams_password="wrong")
    assert wrong.code == 1
    [(_, status, jwt)] = wrong.rows
    assert "daedalus-service" in status
    assert (jwt, PASSWORD in status) == ("", False)
