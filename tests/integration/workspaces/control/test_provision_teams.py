"""The migration of existing instances (auth contract, sections 9.5 and 14.2): `provision_teams`."""

import asyncio
import os
import subprocess
import sys

import pytest
from tests.integration.workspaces.control.world import World
from tests.integration.workspaces.lab import API, environment
from tests.requirements import requirement
from tests.workspaces_world.mnemosyne import PASSWORD

from workspaces.provision_teams import a_command, provision_teams
from workspaces.settings import WorkspacesSettings

NOT_YET = "update pallas_instances set team_jwt_encrypted = null, pallas_team_mnemosyne_status = {} where id = :id"


type Printed = tuple[int, list[tuple[str, str, str]]]
"""The exit code, and name, status and JWT of each row."""


def variables(world: World, **settings: str) -> dict[str, str]:
    """The environment of the command."""
    given = {"teams_url": world.mnemosyne.base, "teams_password": PASSWORD, **world.lab.settings, **settings}
    return environment(**given)


async def run(world: World, capsys: pytest.CaptureFixture[str]) -> Printed:
    """Run the command, and read its table."""
    capsys.readouterr()
    code = await provision_teams(variables(world))
    heading, *lines = capsys.readouterr().out.splitlines()
    columns = [heading.index(word) for word in heading.split()]
    return code, [_cells(line, columns) for line in lines]


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


@requirement("A-14.2.4", "A-9.5.1", "A-9.5.2", "A-4.2.2")
async def test_provision_teams_is_idempotent(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    instances = await in_every_state(world)
    code, rows = await run(world, capsys)
    assert code == 1
    assert [(name, status) for name, status, _ in rows] == [
        ("Failed", "provisioned"),
        ("Gone", "failed: the team was deleted in Mnemosyne, which cannot be undone; register the instance anew"),
        ("Null one", "provisioned"),
        ("Null three", "provisioned"),
        ("Null two", "provisioned"),
        ("Provisioned", "skipped: provisioned"),
    ]
    for name, status, jwt in rows:
        assert (jwt != "") == (status == "provisioned")
        assert not jwt or world.mnemosyne.accepts(jwt)
        expected = {"provisioned": "revealed", "skipped: provisioned": "ready"}.get(status)
        assert expected is None or (await world.instance(instances[name]))["jwt"] == expected
    answer = await world.http.post(f"{API}/pallas/{instances['Failed']}/reveal")
    assert answer.json()["code"] == "already_revealed"

    await world.http.delete(f"{API}/pallas/{instances['Gone']}")
    await world.until_quiet()
    asked = world.mnemosyne.counted()
    code, rows = await run(world, capsys)
    assert code == 0
    assert {(status, jwt) for _, status, jwt in rows} == {("skipped: provisioned", "")}
    assert world.mnemosyne.counted() == asked


async def test_two_runs_at_the_same_time_provision_each_team_once(world: World) -> None:
    instances = [await world.provisioned(f"Team {number}") for number in range(4)]
    await world.until_quiet()
    await world.execute("update pallas_instances set team_jwt_encrypted = null, pallas_team_mnemosyne_status = null")
    world.mnemosyne.teams.clear()
    world.mnemosyne.asked.clear()
    settings = WorkspacesSettings.from_env(variables(world))
    async with a_command(settings) as one, a_command(settings) as other:
        both = await asyncio.gather(one.run(), other.run())
    assert [complete for _, complete in both] == [True, True]
    assert (world.mnemosyne.counted()["POST"], world.mnemosyne.counted()["ROTATE"]) == (len(instances), 0)
    printed = [row.jwt for rows, _ in both for row in rows if row.jwt]
    assert len(printed) == len(instances)
    assert all(world.mnemosyne.accepts(jwt) for jwt in printed)


async def test_a_wrong_password_is_told_in_the_table(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    instance = await world.provisioned()
    await world.execute(NOT_YET.format("null"), id=instance)
    assert await provision_teams(variables(world, teams_password="wrong")) == 1
    printed = capsys.readouterr().out
    assert "refuses the account daedalus-service" in printed
    assert PASSWORD not in printed


async def test_a_missing_password_ends_with_code_2() -> None:
    command = (sys.executable, "-m", "workspaces.provision_teams")
    environ = {**os.environ, **environment(postgres_url="postgresql://127.0.0.1:1/none")}
    ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, env=environ)
    assert ended.returncode == 2
    assert "PALLAS_TEAMS_PASSWORD" in ended.stderr
