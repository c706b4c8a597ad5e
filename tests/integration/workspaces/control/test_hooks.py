"""The hooks (auth contract, section 8): what Mnemosyne is told, also when it fails, and in which order."""

import asyncio
import logging

import pytest
from tests.integration.workspaces.control.world import World
from tests.integration.workspaces.lab import API
from tests.requirements import requirement
from tests.waiting import soon
from tests.workspaces_world.mnemosyne import Mode

FAILURES = ("page", "page_after", "web_page", "redirects")


@requirement("A-8.0.1", "A-8.1.4", "A-4.2.3", "A-11.2.2")
@pytest.mark.parametrize("mode", FAILURES)
async def test_a_failing_mnemosyne_blocks_nothing_and_is_told_later(world: World, mode: Mode) -> None:
    world.mnemosyne.mode = mode
    instance = await world.register()
    failed = await world.until(instance, lambda one: one["status"] == "failed")
    assert failed["status_reason"].startswith("Mnemosyne")
    assert "<" not in failed["status_reason"]
    workspace = await world.workspace(instance)
    picker = (await world.http.get(f"{API}/workspaces/{workspace}/agents")).json()
    assert len(picker["agents"]) == 2
    world.mnemosyne.mode = "well"
    await world.http.post(f"{API}/pallas/{instance}/provision")
    shown = await world.instance(instance)
    assert (shown["status"], shown["status_reason"], shown["drift"]) == ("provisioned", None, None)
    assert world.mnemosyne.knows(instance) == (True, [workspace])
    jwt = (await world.http.post(f"{API}/pallas/{instance}/reveal")).json()["jwt"]
    assert world.mnemosyne.accepts(jwt)


@pytest.mark.parametrize(("mode", "what"), [("anothers", "the JWT of another team"), ("endless", "far too much")])
async def test_what_is_not_as_agreed_is_not_stored(world: World, mode: Mode, what: str) -> None:
    world.mnemosyne.mode = mode
    instance = await world.register()
    failed = await world.until(instance, lambda one: one["status"] == "failed")
    assert (failed["status_reason"], failed["jwt"]) == (f"Mnemosyne answered {what}", "none")
    world.mnemosyne.mode = "well"
    await world.http.post(f"{API}/pallas/{instance}/provision")
    jwt = (await world.http.post(f"{API}/pallas/{instance}/reveal")).json()["jwt"]
    assert world.mnemosyne.accepts(jwt)


@requirement("A-8.0.1")
async def test_hooks_are_tried_again_by_themselves_when_mnemosyne_is_back(own_world: World) -> None:
    await own_world.mnemosyne.stop()
    instance = await own_world.register()
    failed = await own_world.until(instance, lambda one: one["status"] == "failed")
    assert failed["status_reason"] == "Mnemosyne cannot be reached"
    workspace = await own_world.workspace(instance)
    await own_world.mnemosyne.start()
    await own_world.until(instance, lambda one: one["status"] == "provisioned")
    await own_world.until_quiet()
    assert own_world.mnemosyne.knows(instance) == (True, [workspace])


async def test_the_delay_of_tries_grows_and_ends_with_the_outage(own_world: World) -> None:
    own_world.mnemosyne.modes["POST"] = "page"
    instances = [await own_world.register(str(number)) for number in range(3)]
    for instance in instances:
        await own_world.until(instance, lambda one: one["status"] == "failed")
    await own_world.execute("update due_hooks set attempt = 8, due_at = now() + interval '1 hour'")
    own_world.mnemosyne.modes.clear()
    for instance in instances:
        await own_world.until(instance, lambda one: one["status"] == "provisioned")


@requirement("A-8.1.4")
async def test_a_refusal_is_not_tried_again_before_the_next_cycle(world: World) -> None:
    world.mnemosyne.modes["POST"] = "redirects"
    instance = await world.register()
    failed = await world.until(instance, lambda one: one["status"] == "failed")
    await world.until_quiet()
    assert "PALLAS_TEAMS_URL" in failed["status_reason"]
    assert world.mnemosyne.counted()["POST"] == 1


async def test_a_team_that_was_made_twice_gets_a_jwt_that_works(world: World) -> None:
    world.mnemosyne.modes["POST"] = "twice"
    instance = await world.provisioned()
    assert world.mnemosyne.counted()["ROTATE"] == 1
    jwt = (await world.http.post(f"{API}/pallas/{instance}/reveal")).json()["jwt"]
    assert world.mnemosyne.accepts(jwt)


@requirement("A-4.2.4", "A-8.2.1")
async def test_deletion_sends_delete_and_cascades(world: World) -> None:
    instance = await world.provisioned()
    workspace = await world.workspace(instance)
    await world.until_quiet()
    assert (await world.http.delete(f"{API}/pallas/{instance}")).status_code == 204
    await world.until_quiet()
    assert world.mnemosyne.teams[instance].active is False
    for table in ("workspace_pallas_assignments", "agent_connections", "pallas_instances"):
        assert await world.rows(f"select count(*) from {table}") == [(0,)]
    assert (await world.http.get(f"{API}/workspaces/{workspace}/pallas")).json() == {"instances": []}
    [[done]] = await world.rows("select done_at is not null from retired_teams")
    assert done is True


@requirement("A-8.4.1", "A-8.3.1", "A-13.5.2")
async def test_detaching_puts_the_full_remaining_list(world: World) -> None:
    instance = await world.provisioned()
    first, second = await world.workspace(instance), await world.workspace(instance)
    assert (await world.http.delete(f"{API}/workspaces/{first}/pallas/{instance}")).status_code == 204
    await world.until_quiet()
    assert [one.body for one in world.mnemosyne.asked if one.method == "PUT"][-1] == {"workspace_ids": [second]}
    await world.attach(second)
    await world.until_quiet()
    assert world.mnemosyne.knows(instance) == (True, [])


@requirement("A-8.5.1")
async def test_deleting_a_workspace_pushes_the_lists_of_all_its_teams(world: World) -> None:
    one, other = await world.provisioned("One"), await world.provisioned("Other")
    kept, gone = await world.workspace(one, other), await world.workspace(one, other)
    await world.until_quiet()
    assert (await world.http.delete(f"{API}/workspaces/{gone}")).status_code == 204
    await world.until_quiet()
    for instance in (one, other):
        assert world.mnemosyne.knows(instance) == (True, [kept])


async def test_a_change_during_a_push_is_pushed_after_it(world: World) -> None:
    instance = await world.provisioned()
    done, let_go = world.mnemosyne.hold("PUT")
    first = await world.workspace(instance)
    await soon(done.wait())
    second = await world.workspace(instance)
    let_go.set()
    await world.until_quiet()
    assert world.mnemosyne.knows(instance) == (True, sorted([first, second]))


async def test_many_changes_at_once_end_in_the_list_that_holds(world: World) -> None:
    instance = await world.provisioned()
    workspaces = [await world.workspace() for _ in range(8)]
    await asyncio.gather(*(world.http.post(f"{API}/workspaces/{one}/pallas/{instance}") for one in workspaces))
    await asyncio.gather(*(world.http.delete(f"{API}/workspaces/{one}/pallas/{instance}") for one in workspaces[:4]))
    await world.until_quiet()
    assert world.mnemosyne.knows(instance) == (True, sorted(workspaces[4:]))


@requirement("A-13.4.2")
async def test_each_action_is_one_log_line_and_one_run_with_the_correlation(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    instance, workspace = await world.provisioned(), await world.workspace()
    url = f"{API}/workspaces/{workspace}/pallas/{instance}"
    await world.http.post(url, headers={"X-Request-ID": "attach-1"})
    await world.until_quiet()
    await world.http.delete(f"{API}/pallas/{instance}", headers={"X-Request-ID": "delete-1"})
    await world.until_quiet()
    lines = [vars(record) for record in caplog.records if record.message.startswith("pallas_team_")]
    assert [(one["message"], one["correlation"]) for one in lines][1:] == [
        ("pallas_team_workspaces_updated", "attach-1"),
        ("pallas_team_deleted", "delete-1"),
    ]
    assert {one["team"] for one in lines} == {instance}
    runs = (await world.http.get(f"{API}/hooks", params={"instance_id": instance})).json()
    assert [(run["hook"], run["ok"]) for run in runs["runs"]] == [
        ("on_pallas_deleted", True),
        ("on_workspace_pallas_attached", True),
        ("on_pallas_registered", True),
    ]
    assert runs["runs"][1]["data"]["workspace_ids"] == [workspace]
    assert runs["due"] == 0


async def test_a_run_that_lost_its_lease_changes_nothing_and_is_done_again(world: World) -> None:
    done, let_go = world.mnemosyne.hold("POST")
    instance = await world.register()
    await soon(done.wait())
    await world.execute("update due_hooks set owner = 'another', leased_until = now()")
    let_go.set()
    await world.until(instance, lambda one: one["status"] == "provisioned")
    await world.until_quiet()
    jwt = (await world.http.post(f"{API}/pallas/{instance}/reveal")).json()["jwt"]
    assert world.mnemosyne.accepts(jwt)


async def test_an_instance_that_is_deleted_while_it_is_provisioned_leaves_no_team(world: World) -> None:
    done, let_go = world.mnemosyne.hold("POST")
    instance = await world.register()
    await soon(done.wait())
    await world.http.delete(f"{API}/pallas/{instance}")
    let_go.set()
    await world.until_quiet()
    assert world.mnemosyne.teams[instance].active is False


async def test_the_newest_thousand_runs_are_kept(world: World) -> None:
    instance = await world.provisioned()
    await world.execute(
        "insert into hook_runs (hook, instance_id, instance_name, attempt, ok, data, correlation, took_ms) "
        "select 'h', 'i', 'n', 1, true, '{}', 'c', 1 from generate_series(1, 1500)"
    )
    workspace = await world.workspace(instance)
    await world.until_quiet()
    assert await world.rows("select count(*) from hook_runs") == [(1000,)]
    page = (await world.http.get(f"{API}/hooks", params={"limit": 2})).json()
    assert page["runs"][0]["data"]["workspace_ids"] == [workspace]
    further = (await world.http.get(f"{API}/hooks", params={"limit": 2, "before": page["next"]})).json()
    assert further["runs"][0]["id"] < page["runs"][-1]["id"]
