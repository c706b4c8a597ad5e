"""What Mnemosyne is told of changes (auth contract, section 8), also when it fails, and in which order."""

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from tests.integration.real_parts import until
from tests.integration.workspaces.control.world import World
from tests.integration.workspaces.lab import API, FERNET_KEY
from tests.requirements import requirement
from tests.waiting import soon
from tests.workspaces_world.mnemosyne import BUSY_SECONDS, PASSWORD, Mnemosyne, Mode

from pallas_contracts.errors import PallasError, Unavailable
from pallas_postgres.engine import reading, writing
from workspaces.changes.make import Wake, wake
from workspaces.mnemosyne.teams import Teams, open_teams_client
from workspaces.mnemosyne.vault import Vault
from workspaces.model import Who
from workspaces.reconciling.claims import Claimed, Claims
from workspaces.reconciling.reconciler import wake_all
from workspaces.reconciling.sync import BROKEN, Syncer
from workspaces.tables import PallasInstance

WHO = Who("admin", "req-1")
SEALED_BY_ANOTHER = "a secret in the database was encrypted with a key that this service does not have"


async def until_tried(world: World) -> None:
    """Wait until a team was tried, and waits for its next try."""

    async def tried() -> bool:
        found = await world.rows("select id from mnemosyne_teams where tries > 0 and due_at > now() and claim is null")
        return len(found) > 0

    await until(tried)


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
    await world.accepted(instance)


@pytest.mark.parametrize(("mode", "what"), [("anothers", "the JWT of another team"), ("endless", "far too much")])
async def test_what_is_not_as_agreed_is_not_stored(world: World, mode: Mode, what: str) -> None:
    world.mnemosyne.mode = mode
    instance = await world.register()
    failed = await world.until(instance, lambda one: one["status"] == "failed")
    assert (failed["status_reason"], failed["jwt"]) == (f"Mnemosyne answered {what}", "none")
    world.mnemosyne.mode = "well"
    await world.http.post(f"{API}/pallas/{instance}/provision")
    await world.accepted(instance)


@requirement("A-8.0.1")
async def test_what_failed_is_tried_again_by_itself_when_mnemosyne_is_back(own_world: World) -> None:
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
    await own_world.execute("update mnemosyne_teams set tries = 8, due_at = now() + interval '1 hour'")
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
    [waiting] = await world.deliveries()
    assert (waiting["error"], waiting["next_try_at"]) == (failed["status_reason"], None)


async def test_a_team_that_was_made_twice_gets_a_jwt_that_works(world: World) -> None:
    world.mnemosyne.modes["POST"] = "twice"
    instance = await world.provisioned()
    assert world.mnemosyne.counted()["ROTATE"] == 1
    await world.accepted(instance)


@requirement("A-4.2.4", "A-8.2.1")
async def test_deletion_sends_delete_and_cascades(world: World) -> None:
    instance = await world.provisioned()
    workspace = await world.told(instance)
    assert (await world.http.delete(f"{API}/pallas/{instance}")).status_code == 204
    await world.until_quiet()
    assert world.mnemosyne.teams[instance].active is False
    for table in ("workspace_pallas_assignments", "agent_connections", "pallas_instances"):
        assert await world.rows(f"select count(*) from {table}") == [(0,)]
    assert (await world.http.get(f"{API}/workspaces/{workspace}/pallas")).json() == {"instances": []}
    assert await world.deliveries() == []


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
async def test_each_action_is_one_log_line_with_the_correlation_of_its_change(
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


async def test_whoever_lost_its_claim_changes_nothing_and_the_team_is_compared_again(world: World) -> None:
    done, let_go = world.mnemosyne.hold("POST")
    instance = await world.register()
    await soon(done.wait())
    await world.execute("update mnemosyne_teams set claim = 'another', claimed_until = now()")
    let_go.set()
    await world.until(instance, lambda one: one["status"] == "provisioned")
    await world.until_quiet()
    await world.accepted(instance)


async def test_an_instance_that_is_deleted_while_it_is_provisioned_leaves_no_team(world: World) -> None:
    done, let_go = world.mnemosyne.hold("POST")
    instance = await world.register()
    await soon(done.wait())
    await world.http.delete(f"{API}/pallas/{instance}")
    let_go.set()
    await world.until_quiet()
    assert world.mnemosyne.teams[instance].active is False


async def test_a_delivery_says_since_when_and_why_mnemosyne_does_not_have_it(world: World) -> None:
    instance = await world.provisioned()
    kept, gone = await world.workspace(instance), await world.workspace(instance)
    await world.until_quiet()
    world.mnemosyne.modes["PUT"] = "page"
    before = datetime.now(UTC)
    detached = await world.http.delete(f"{API}/workspaces/{gone}/pallas/{instance}", headers={"X-Request-ID": "d-1"})
    assert detached.status_code == 204
    await until_tried(world)
    [waiting] = await world.deliveries()
    assert (waiting["instance_id"], waiting["instance_name"]) == (instance, "Kottos")
    assert (waiting["error"], waiting["correlation"]) == ("Mnemosyne failed with a web page (status 500)", "d-1")
    assert waiting["difference"] == f"The libraries still have {gone}."
    since = datetime.fromisoformat(waiting["since"])
    assert before <= since < datetime.fromisoformat(waiting["next_try_at"])
    assert await world.deliveries(instance_id="another") == []
    await world.http.post(f"{API}/workspaces/{kept}/pallas/{instance}")
    await world.http.delete(f"{API}/workspaces/{kept}/pallas/{instance}")
    await until_tried(world)
    assert datetime.fromisoformat((await world.deliveries())[0]["since"]) == since
    world.mnemosyne.modes.clear()
    await world.http.post(f"{API}/pallas/{instance}/provision")
    assert await world.deliveries() == []
    assert world.mnemosyne.knows(instance) == (True, [])


async def test_mnemosyne_is_left_alone_for_as_long_as_it_wants_and_then_told(world: World) -> None:
    instance = await world.settled()
    world.mnemosyne.modes["PUT"] = "busy"
    workspace = await world.workspace(instance)
    await until_tried(world)
    world.mnemosyne.modes.clear()
    asked = len(world.mnemosyne.asked)
    answer = await world.http.post(f"{API}/pallas/{instance}/check")
    assert (answer.status_code, answer.json()["code"]) == (503, "mnemosyne_away")
    assert len(world.mnemosyne.asked) == asked
    [waiting] = await world.deliveries()
    next_try, since = (datetime.fromisoformat(waiting[name]) for name in ("next_try_at", "since"))
    assert (next_try - since).total_seconds() >= BUSY_SECONDS
    await world.mnemosyne.until(lambda _: world.mnemosyne.knows(instance) == (True, [workspace]))


async def test_rights_are_taken_away_before_others_are_given(engine: AsyncEngine) -> None:
    async with writing(engine) as session:
        for name in ("compared", "attached", "detached"):
            session.add(PallasInstance(id=name, name=name, registry_url=name))
        await session.flush()
        await wake_all(session, WHO)
        await wake(session, WHO, Wake("attached"))
        await wake(session, WHO, Wake("detached", revokes=True))
    claims = Claims(engine)
    taken = [await claims.take(1) for _ in range(4)]
    assert [[one.id for one in each] for each in taken] == [["detached"], ["attached"], ["compared"], []]


async def test_a_cycle_in_the_middle_does_not_hide_that_a_change_was_told(world: World) -> None:
    instance = await world.settled()
    done, let_go = world.mnemosyne.hold("PUT")
    await world.workspace(instance)
    await soon(done.wait())
    asked, again = world.mnemosyne.hold("GET")
    await world.http.post(f"{API}/deliveries/reconcile")
    let_go.set()
    await soon(asked.wait())
    assert await world.deliveries() == []
    again.set()


async def test_the_claim_of_several_teams_is_kept_until_all_of_them_have_ended(world: World) -> None:
    broken, slow = [await world.provisioned(each) for each in ("Broken", "Slow")]
    revoked = await world.told(slow)
    await world.execute("update pallas_instances set team_jwt_encrypted = 'x' where id = :id", id=broken)
    world.mnemosyne.asked.clear()
    asked, let_go = world.mnemosyne.hold("GET", slow)
    await world.http.post(f"{API}/deliveries/reconcile")
    await soon(asked.wait())
    await world.mnemosyne.until(lambda answered: len(answered) > 0)
    claim = await world.rows("select distinct claim from mnemosyne_teams")
    assert (await world.http.delete(f"{API}/workspaces/{revoked}/pallas/{slow}")).status_code == 204
    for _ in range(50):
        assert await world.rows("select distinct claim from mnemosyne_teams") == claim
    assert len(claim) == 1
    let_go.set()
    await until_tried(world)
    await world.until_quiet()
    assert world.mnemosyne.knows(slow) == (True, [])
    [waiting] = await world.deliveries()
    assert (waiting["instance_id"], waiting["error"]) == (broken, SEALED_BY_ANOTHER)
    assert waiting["next_try_at"] is not None


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Unavailable("the database cannot be used right now", code="no_database"), "the database cannot be used"),
        (PallasError("odd"), "odd"),
        (RuntimeError("a bug"), BROKEN),
    ],
)
async def test_an_error_of_one_team_is_its_own_and_it_is_tried_again_later(
    engine: AsyncEngine, error: Exception, reason: str
) -> None:
    class Failing(Claims):
        async def store_in(self, session: AsyncSession, one: Claimed, values: Mapping[str, Any]) -> None:
            if one.id == "broken":
                raise error
            await super().store_in(session, one, values)

    async with writing(engine) as session:
        session.add_all(PallasInstance(id=each, name=each, registry_url=each) for each in ("broken", "well"))
        await session.flush()
        await wake_all(session, WHO)
        await session.execute(text("update mnemosyne_teams set tries = 2000"))
    claims = Failing(engine)
    async with Mnemosyne() as mnemosyne, open_teams_client(SecretStr(PASSWORD)) as http:
        syncer = Syncer(Teams(http, mnemosyne.base), Vault([FERNET_KEY]), claims)
        told = {each.one.id: each.error or "" for each in await syncer.sync(await claims.take(10))}
        assert mnemosyne.knows("well") == (True, [])
    assert told["well"] == ""
    assert told["broken"].startswith(reason)
    later = text(
        "select id, error, tries, due_at > clock_timestamp() + interval '30 seconds' from mnemosyne_teams order by id"
    )
    async with reading(engine) as session:
        rows = [tuple(row) for row in await session.execute(later)]
    assert rows == [("broken", told["broken"], 2001, True), ("well", None, 0, None)]
