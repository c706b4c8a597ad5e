"""JWTs of teams: encrypted, shown once, replaced, and in no other place (auth contract, sections 4.2, 9.4 and 13.3)."""

import asyncio
import logging
import subprocess
from typing import Any

import pytest
from cryptography.fernet import Fernet
from tests.integration.workspaces.control.world import World, a_world
from tests.integration.workspaces.lab import API, FERNET_KEY
from tests.requirements import requirement
from tests.waiting import soon
from tests.workspaces_world.mnemosyne import Mode

from pallas_contracts.errors import Rejected


@requirement("A-4.2.2", "A-9.1.2")
async def test_of_many_that_reveal_at_once_one_sees_the_jwt(world: World) -> None:
    instance = await world.settled()
    answers = await asyncio.gather(*(world.http.post(f"{API}/pallas/{instance}/reveal") for _ in range(8)))
    assert sorted(one.status_code for one in answers) == [200] + [409] * 7
    assert (await world.instance(instance))["jwt"] == "revealed"


async def test_there_is_nothing_to_reveal_before_the_team_is_provisioned(world: World) -> None:
    world.mnemosyne.mode = "redirects"
    instance = await world.register()
    await world.until(instance, lambda one: one["status"] == "failed")
    answer = await world.http.post(f"{API}/pallas/{instance}/reveal")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_jwt")


@requirement("A-9.4.1")
async def test_rotating_while_mnemosyne_is_away_changes_nothing(own_world: World) -> None:
    instance = await own_world.settled()
    await own_world.mnemosyne.stop()
    answer = await own_world.http.post(f"{API}/pallas/{instance}/rotate")
    assert (answer.status_code, answer.json()["code"]) == (503, "mnemosyne_away")
    assert "retry-after" in answer.headers
    shown = await own_world.instance(instance)
    assert (shown["status"], shown["jwt"]) == ("provisioned", "ready")
    await own_world.mnemosyne.start()
    await own_world.until_quiet()
    assert own_world.mnemosyne.counted()["ROTATE"] == 0
    await own_world.accepted(instance)


@requirement("A-9.4.1")
@pytest.mark.parametrize("mode", ["page", "page_after", "twice", "web_page", "redirects", "well"])
async def test_after_any_rotation_the_stored_jwt_works(world: World, mode: Mode) -> None:
    instance = await world.settled()
    world.mnemosyne.modes["ROTATE"] = mode
    answer = await world.http.post(f"{API}/pallas/{instance}/rotate")
    assert answer.status_code in ((200,) if mode in ("twice", "well") else (502, 503))
    world.mnemosyne.mode = "well"
    world.mnemosyne.modes.clear()
    await world.until(instance, lambda one: one["status"] == "provisioned")
    await world.until_quiet()
    await world.accepted(instance)
    assert (await world.instance(instance))["drift"] is None


async def test_rotating_a_lost_team_that_mnemosyne_refuses_to_make_is_no_outage(world: World) -> None:
    instance = await world.settled()
    world.mnemosyne.teams.clear()
    world.mnemosyne.modes["POST"] = "redirects"
    answer = await world.http.post(f"{API}/pallas/{instance}/rotate")
    assert (answer.status_code, answer.json()["code"]) == (502, "mnemosyne_refused")
    assert (await world.instance(instance))["status"] == "failed"


async def test_a_rotation_waits_for_the_push_before_it(world: World) -> None:
    instance = await world.provisioned()
    done, let_go = world.mnemosyne.hold("PUT")
    workspace = await world.workspace(instance)
    await soon(done.wait())
    rotating = asyncio.create_task(world.http.post(f"{API}/pallas/{instance}/rotate"))
    await asyncio.sleep(0)
    assert world.mnemosyne.counted()["ROTATE"] == 0
    let_go.set()
    assert (await soon(rotating)).status_code == 200
    assert world.mnemosyne.knows(instance) == (True, [workspace])


async def test_rotations_at_once_leave_a_jwt_that_works(world: World) -> None:
    instance = await world.provisioned()
    answers = await asyncio.gather(*(world.http.post(f"{API}/pallas/{instance}/rotate") for _ in range(4)))
    assert {one.status_code for one in answers} == {200}
    await world.accepted(instance)


@requirement("A-13.3.3", "A-4.2.1")
async def test_the_plaintext_is_nowhere(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    instance = await world.provisioned()
    await world.workspace(instance)
    await world.http.post(f"{API}/pallas/{instance}/reveal")
    await world.http.post(f"{API}/pallas/{instance}/rotate")
    await world.reconcile()
    for mode in ("page_after", "web_page"):
        world.mnemosyne.mode = mode
        await world.http.post(f"{API}/pallas/{instance}/rotate")
    world.mnemosyne.mode = "well"
    await world.until(instance, lambda one: one["status"] == "provisioned")
    assert len(world.mnemosyne.jwts) >= 3
    dumped = await _all_rows(world)
    logged = "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    shown = "".join([(await world.http.get(f"{API}{path}")).text for path in ("/pallas", "/deliveries", "/workspaces")])
    for jwt in world.mnemosyne.jwts:
        for secret in (jwt, jwt.rpartition(".")[2]):
            assert secret not in dumped
            assert secret not in logged
            assert secret not in shown


async def _all_rows(world: World) -> str:
    tables = await world.rows("select tablename from pg_tables where schemaname = 'public'")
    assert len(tables) > 10
    return "\n".join([str(await world.rows(f"select t::text from {table} t")) for [table] in tables])


@requirement("A-13.3.3")
async def test_a_lost_key_stops_the_start_and_says_how_many(database: str) -> None:
    async with a_world(database) as world:
        instances = [await world.provisioned(name) for name in ("One", "Two")]
        await world.http.patch(f"{API}/pallas/{instances[0]}", json={"agent_token": "t0ken"})
        teams = world.mnemosyne.snapshot()
    other = Fernet.generate_key().decode()
    with pytest.raises(Rejected, match="2 team JWTs and 1 agent tokens cannot be opened") as refused:
        async with a_world(database, fernet_key=other):
            pass
    assert other not in str(refused.value)
    async with a_world(database, fernet_key=f"{other},{FERNET_KEY}") as world:
        world.mnemosyne.teams = teams
        assert {(await world.instance(one))["jwt"] for one in instances} == {"ready"}
    async with a_world(database, fernet_key=other) as world:
        world.mnemosyne.teams = teams
        await world.accepted(instances[0])


@requirement("A-13.3.3")
async def test_lost_jwts_that_are_given_up_are_rotated(database: str) -> None:
    async with a_world(database) as world:
        instance = await world.provisioned()
        teams = world.mnemosyne.snapshot()
    settings: dict[str, Any] = {"fernet_key": Fernet.generate_key().decode(), "accept_lost_jwts": "true"}
    async with a_world(database, **settings) as world:
        world.mnemosyne.teams = teams
        await world.reconcile()
        shown = await world.until(instance, lambda one: one["status"] == "provisioned")
        assert shown["jwt"] == "ready"
        await world.accepted(instance)


async def test_the_flag_is_read() -> None:
    """`python -m workspaces` without a key ends with code 2 and names the setting."""
    import sys

    ended = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-m", "workspaces"], capture_output=True, text=True, env={"PALLAS_PORT": "0"}
    )
    assert ended.returncode == 2
    assert "SECRET_KEY" in ended.stderr
