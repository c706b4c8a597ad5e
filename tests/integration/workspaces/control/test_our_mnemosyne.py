"""With team-lifecycle as Mnemosyne, and the broker: everything as with another one, and changes by others are heard."""

from collections.abc import AsyncGenerator
from pathlib import Path

import jwt as pyjwt
import pytest
from tests.embedded import NatsServer, RedisServer
from tests.integration.real_parts import until
from tests.integration.team_lifecycle.lab import ADMIN, SERVICE_PASSWORD, TEAMS, Lifecycle, a_lifecycle
from tests.integration.workspaces.control.world import World
from tests.integration.workspaces.lab import API, a_workspaces
from tests.postgres import PostgresServer
from tests.requirements import requirement
from tests.workspaces_world.mnemosyne import Mnemosyne
from tests.workspaces_world.registry import Registry


@pytest.fixture
async def lifecycle(postgres: PostgresServer, nats_server: NatsServer, tmp_path: Path) -> AsyncGenerator[Lifecycle]:
    """A running team-lifecycle."""
    with RedisServer(tmp_path / "redis") as redis:
        database = await postgres.new_database()
        async with a_lifecycle(postgres_url=database, redis_url=redis.url, nats_url=nats_server.url) as lifecycle:
            yield lifecycle


@pytest.fixture
async def with_ours(database: str, nats_server: NatsServer, lifecycle: Lifecycle) -> AsyncGenerator[World]:
    """A world whose Mnemosyne is team-lifecycle; the other one is not asked."""
    settings = {"teams_url": lifecycle.base, "teams_password": SERVICE_PASSWORD, "nats_url": nats_server.url}
    async with Registry() as registry, a_workspaces(postgres_url=database, **settings) as lab:
        yield World(lab, Mnemosyne(), registry)


@requirement("A-8.1.2", "A-8.3.1", "A-8.2.1", "A-9.4.1", "A-13.5.2")
async def test_everything_works_with_our_own_mnemosyne(with_ours: World, lifecycle: Lifecycle) -> None:
    world = with_ours
    instance = await world.provisioned("Kottos")
    workspace = await world.told(instance)
    team = (await lifecycle.daedalus.get(f"{TEAMS}{instance}/")).json()
    assert (team["name"], team["active"], team["workspace_ids"]) == ("Kottos", True, [workspace])

    # Changed by an admin of Mnemosyne: put right as soon as it is heard.
    await lifecycle.attach(instance, "ws_other")

    async def put_right() -> bool:
        shown = (await lifecycle.daedalus.get(f"{TEAMS}{instance}/")).json()
        return shown["workspace_ids"] == [workspace]

    await until(put_right)

    # Renamed here: mirrored.
    await world.http.patch(f"{API}/pallas/{instance}", json={"name": "Briareos"})
    await world.until_quiet()
    mirrored = (await lifecycle.daedalus.get(f"{TEAMS}{instance}/")).json()
    assert (mirrored["name"], mirrored["active_jti"]) == ("Briareos", team["active_jti"])
    assert (await world.instance(instance))["drift"] is None

    # Rotated by an admin: told, and left alone until it is rotated here.
    rotated = await lifecycle.admin.post(f"{ADMIN}/teams/{instance}/rotate/")
    assert rotated.status_code == 200
    told = await world.until(instance, lambda one: one["drift"] is not None)
    assert "rotated elsewhere" in told["drift"]
    assert (await world.http.post(f"{API}/pallas/{instance}/rotate")).json()["drift"] is None
    jwt = (await world.http.post(f"{API}/pallas/{instance}/reveal")).json()["jwt"]
    current = (await lifecycle.daedalus.get(f"{TEAMS}{instance}/")).json()["active_jti"]
    assert pyjwt.decode(jwt, options={"verify_signature": False})["jti"] == current

    # Deleted by an admin: failed, with what to do.
    other = await world.provisioned("Mentor")
    await world.until_quiet()
    assert (await lifecycle.admin.delete(f"{ADMIN}/teams/{other}/")).status_code == 204
    failed = await world.until(other, lambda one: one["status"] == "failed")
    assert "register the instance anew" in failed["status_reason"]

    await world.http.delete(f"{API}/pallas/{instance}")
    await world.until_quiet()
    assert (await lifecycle.daedalus.get(f"{TEAMS}{instance}/")).json()["active"] is False


async def test_what_is_heard_of_our_own_changes_comes_to_rest(with_ours: World, lifecycle: Lifecycle) -> None:
    world = with_ours
    instance, other = await world.provisioned(), await world.provisioned("Other")
    workspaces = [await world.workspace(instance) for _ in range(3)]
    await world.http.post(f"{API}/pallas/{instance}/rotate")

    async def change_and_hear() -> None:
        await lifecycle.attach(other, "ws_other")

        async def heard() -> bool:
            return (await lifecycle.daedalus.get(f"{TEAMS}{other}/")).json()["workspace_ids"] == []

        await until(heard)
        await world.until_quiet()

    versions = list[object]()
    for _ in range(2):
        await change_and_hear()
        versions += await world.rows("select version from mnemosyne_teams where id = :id", id=instance)
    assert versions[0] == versions[1]
    assert (await world.instance(instance))["pushed_workspaces"] == sorted(workspaces)
