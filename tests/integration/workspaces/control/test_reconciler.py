"""The reconciler (auth contract, section 8.6): whatever was lost, Mnemosyne has what holds here after one cycle."""

import asyncio
import logging
from collections.abc import Callable, Coroutine

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from tests.integration.real_parts import until
from tests.integration.workspaces.control.world import World
from tests.integration.workspaces.lab import API
from tests.requirements import requirement
from tests.waiting import soon
from tests.workspaces_world.mnemosyne import Mode
from tests.workspaces_world.registry import entry

from pallas_postgres.engine import writing
from workspaces.live.hub import ALL
from workspaces.reconciling.claims import Claims, reconciler
from workspaces.reconciling.reconciler import wake_all
from workspaces.registries.refresh import store_fetches

LOST = "update pallas_instances set pallas_team_mnemosyne_status = {}, status_at = now() where id = :id"


@requirement("A-8.6.1", "A-11.2.2")
@pytest.mark.parametrize("status", ["null", "'failed'", "'pending'"])
async def test_a_cycle_posts_teams_that_are_not_provisioned(world: World, status: str) -> None:
    instance = await world.settled()
    await world.execute("update pallas_instances set team_jwt_encrypted = null")
    await world.execute(LOST.format(status), id=instance)
    world.mnemosyne.teams.clear()
    world.mnemosyne.asked.clear()
    workspace = await world.workspace()
    picker = await world.http.get(f"{API}/workspaces/{workspace}/agents")
    assert picker.status_code == 200
    await world.reconcile()
    assert (await world.instance(instance))["status"] == "provisioned"
    assert world.mnemosyne.counted()["POST"] == 1
    await world.accepted(instance)


@requirement("A-8.6.2")
async def test_a_cycle_puts_the_workspaces_of_all_teams(world: World, caplog: pytest.LogCaptureFixture) -> None:
    instances = [await world.provisioned(name) for name in ("One", "Two")]
    workspace = await world.told(*instances)
    world.mnemosyne.asked.clear()
    await world.reconcile()
    assert world.mnemosyne.counted() == {"GET": 2, "PUT": 2}
    world.mnemosyne.teams[instances[0]].workspace_ids = ["ws_other"]
    with caplog.at_level(logging.INFO):
        await world.reconcile()
    assert world.mnemosyne.knows(instances[0]) == (True, [workspace])
    told = [(record.message, vars(record)["team"]) for record in caplog.records if "team" in vars(record)]
    assert told == [
        ("Mnemosyne has something else about a team", instances[0]),
        ("pallas_team_workspaces_updated", instances[0]),
    ]


async def test_a_cycle_does_also_what_waits_for_its_next_try(world: World) -> None:
    instance = await world.settled()
    later = "since = now(), tries = 8, due_at = now() + interval '1 hour'"
    await world.execute(f"update mnemosyne_teams set {later}")
    await world.reconcile()
    assert (await world.deliveries(), world.mnemosyne.knows(instance)) == ([], (True, []))


@pytest.mark.parametrize("what", ["a cycle", "an attachment", "a rotation"])
async def test_a_team_that_mnemosyne_has_lost_is_made_again_by_whatever_comes_first(world: World, what: str) -> None:
    instance = await world.provisioned()
    workspaces = [await world.told(instance)]
    old = await world.accepted(instance)
    world.mnemosyne.teams.clear()
    if what == "a cycle":
        await world.reconcile()
    elif what == "an attachment":
        workspaces.append(await world.told(instance))
    else:
        assert (await world.http.post(f"{API}/pallas/{instance}/rotate")).status_code == 200
    assert world.mnemosyne.knows(instance) == (True, sorted(workspaces))
    assert not world.mnemosyne.accepts(old)
    shown = await world.instance(instance)
    assert (shown["status"], shown["jwt"], shown["drift"]) == ("provisioned", "ready", None)


@requirement("A-8.6.2")
async def test_a_team_that_was_deleted_in_mnemosyne_is_failed_with_what_to_do(world: World) -> None:
    instance = await world.provisioned()
    world.mnemosyne.teams[instance].active = False
    await world.reconcile()
    shown = await world.instance(instance)
    assert shown["status"] == "failed"
    assert "register the instance anew" in shown["status_reason"]
    await world.reconcile()
    assert world.mnemosyne.teams[instance].active is False
    world.mnemosyne.teams[instance].active = True
    await world.reconcile()
    assert (await world.instance(instance))["status"] == "provisioned"
    assert world.mnemosyne.counted()["ROTATE"] == 0


async def test_a_deleted_team_that_came_back_is_deleted_again(world: World) -> None:
    instance = await world.provisioned()
    await world.http.delete(f"{API}/pallas/{instance}")
    await world.until_quiet()
    world.mnemosyne.teams[instance].active = True
    await world.reconcile()
    assert world.mnemosyne.teams[instance].active is False
    world.mnemosyne.asked.clear()
    await world.reconcile()
    assert world.mnemosyne.counted() == {"GET": 1}


async def test_a_jwt_that_was_rotated_elsewhere_is_told_and_left_alone(world: World) -> None:
    instance = await world.provisioned()
    world.mnemosyne.teams[instance].rotate()
    checked = (await world.http.post(f"{API}/pallas/{instance}/check")).json()
    assert "rotated elsewhere" in checked["drift"]
    await world.reconcile()
    assert world.mnemosyne.counted()["ROTATE"] == 0
    rotated = (await world.http.post(f"{API}/pallas/{instance}/rotate")).json()
    assert rotated["drift"] is None


async def test_drift_is_told_in_a_sentence(world: World) -> None:
    instance = await world.provisioned()
    workspace = await world.told(instance)
    world.mnemosyne.teams[instance].workspace_ids = ["ws_other"]
    checked = (await world.http.post(f"{API}/pallas/{instance}/check")).json()
    untold = f"The libraries have not been told yet of {workspace}."
    assert checked["drift"] == f"{untold} The libraries still have ws_other."
    assert checked["believed"]["workspace_ids"] == ["ws_other"]
    world.mnemosyne.teams.clear()
    checked = (await world.http.post(f"{API}/pallas/{instance}/check")).json()
    assert checked["drift"] == "The libraries do not know this team."


@pytest.mark.parametrize(
    ("what", "mode", "reason"),
    [
        ("GET", "page", "Mnemosyne failed with a web page (status 500)"),
        ("GET", "web_page", "Mnemosyne answered a web page instead of JSON"),
        ("GET", "redirects", "Mnemosyne redirects (status 302); PALLAS_TEAMS_URL must be its own address"),
        ("PUT", "page", "Mnemosyne failed with a web page (status 500)"),
    ],
)
async def test_a_cycle_that_cannot_compare_is_told_until_one_can(
    world: World, what: str, mode: Mode, reason: str
) -> None:
    one, two = await world.provisioned("One"), await world.provisioned("Two")
    await world.told(one, two)
    assert await world.deliveries() == []
    world.mnemosyne.modes[what] = mode
    await world.reconcile()
    waiting = {each["instance_id"]: (each["error"], each["difference"]) for each in await world.deliveries()}
    assert waiting == dict.fromkeys((one, two), (reason, None))
    shown = await world.instance(one)
    assert (shown["status"], shown["drift"], shown["believed"]["error"]) == ("provisioned", None, reason)
    async with world.lab.service.parts.hub.subscribe(ALL) as told:
        world.mnemosyne.modes.clear()
        await world.reconcile()
        changed = set[str]()
        while changed != {one, two}:
            item = await soon(anext(told))
            changed |= {item.data["id"]} if item.kind == "instance" else set()
    assert await world.deliveries() == []
    assert (await world.instance(one))["believed"]["error"] is None


async def test_that_mnemosyne_cannot_be_reached_is_told_while_nothing_was_changed(own_world: World) -> None:
    instance = await own_world.provisioned()
    await own_world.told(instance)
    await own_world.mnemosyne.stop()
    await own_world.reconcile()
    [waiting] = await own_world.deliveries()
    assert (waiting["instance_id"], waiting["error"]) == (instance, "Mnemosyne cannot be reached")
    await own_world.mnemosyne.start()
    await own_world.until(instance, lambda one: one["believed"]["error"] is None)
    assert await own_world.deliveries() == []


async def test_a_cycle_fetches_the_registries_of_attached_teams_again(world: World) -> None:
    instance, left = await world.provisioned("Attached"), await world.provisioned("Left alone")
    workspace = await world.told(instance)
    world.registry.servers = [entry("ca.helu.ouranos/pallas-new", title="New Agent")]
    await world.lab.service.parts.control.reconciler.refresh_attached()
    picker = (await world.http.get(f"{API}/workspaces/{workspace}/agents")).json()
    assert [agent["label"] for agent in picker["agents"]] == ["Attached › New Agent"]
    assert len((await world.instance(left))["agents"]) == 2
    before = await world.rows("select count(*) from changes")
    await world.lab.service.parts.control.reconciler.refresh_attached()
    assert await world.rows("select count(*) from changes") == before


async def test_browsers_are_told_that_a_registry_answers_again(world: World) -> None:
    instance = await world.provisioned()
    await world.told(instance)
    refresh = world.lab.service.parts.control.reconciler.refresh_attached
    world.registry.mode = "status"
    await refresh()
    assert (await world.instance(instance))["last_fetch_error"]
    world.registry.mode = "well"
    async with world.lab.service.parts.hub.subscribe(ALL) as told:
        await refresh()
        assert (await soon(anext(told))).data == {"id": instance}
    assert (await world.instance(instance))["last_fetch_error"] is None


async def test_replicas_make_one_cycle_in_each_interval(world: World) -> None:
    reconciler = world.lab.service.parts.control.reconciler
    assert await reconciler.cycle()
    assert not await reconciler.cycle(early=False)
    assert (await world.http.put(f"{API}/settings", json={"reconcile_interval": 1})).status_code == 200
    await world.execute("update settings set value = '{\"at\": \"2026-01-01T00:00:00Z\"}' where key = 'last_reconcile'")
    await world.until_quiet()


_WAITS = "select pid from pg_stat_activity where datname = current_database() and wait_event = 'transactionid'"
_FIRST, _LAST = "00000000-0000-4000-8000-000000000000", "ffffffff-ffff-4fff-8fff-ffffffffffff"
_ENDED = [{"id": one, "version": 1, "error": None, "delay": 3600} for one in (_LAST, _FIRST)]


async def _conclude(engine: AsyncEngine) -> None:
    await Claims(engine).conclude("mine", _ENDED, [])


async def _store_fetches(engine: AsyncEngine) -> None:
    async with writing(engine) as session:
        await store_fetches(session, [_LAST, _FIRST], {})


async def _wake_all(engine: AsyncEngine) -> None:
    async with writing(engine) as session:
        await wake_all(session, reconciler())


@pytest.mark.parametrize(
    ("first", "then", "work"),
    [
        (f"pallas_instances where id = '{_FIRST}'", "pallas_instances", _conclude),
        (f"pallas_instances where id = '{_FIRST}'", "mnemosyne_teams", _conclude),
        (f"mnemosyne_teams where id = '{_FIRST}'", "mnemosyne_teams", _conclude),
        (f"pallas_instances where id = '{_FIRST}'", "pallas_instances", _store_fetches),
        (f"mnemosyne_teams where id = '{_FIRST}'", "mnemosyne_teams", _wake_all),
    ],
)
async def test_whoever_writes_several_rows_locks_them_in_one_order(
    world: World, first: str, then: str, work: Callable[[AsyncEngine], Coroutine[None, None, None]]
) -> None:
    for one in (_LAST, _FIRST):
        await world.register(one, id=one)
    await world.until_quiet()
    await world.set_teams("claim = 'mine', claimed_until = now() + interval '1 hour'")
    engine = world.lab.service.parts.engine

    async def waits() -> bool:
        return bool(await world.rows(_WAITS))

    async with engine.connect() as change, asyncio.TaskGroup() as tasks:
        await change.execute(text(f"select from {first} for update"))
        tasks.create_task(work(engine))
        await until(waits)
        await change.execute(text(f"select from {then} for update nowait"))
        await change.execute(text("update mnemosyne_teams set claim = null"))
        await change.commit()
