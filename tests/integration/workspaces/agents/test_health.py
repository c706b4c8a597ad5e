"""The health of agents: checked at once and then at the interval, told when it changes, and shown."""

import asyncio
from ipaddress import ip_network
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import text
from tests.integration.workspaces.agents.conftest import API, Town
from tests.integration.workspaces.chat.talk import begin
from tests.integration.workspaces.control.world import a_world
from tests.requirements import requirement
from tests.waiting import eventually, soon
from tests.workspaces_world.foreign.raw_agents import RawAgents
from tests.workspaces_world.registry import Registry, entry

from pallas_mcp_calls.calls import AgentCalls
from pallas_mcp_calls.model import Target
from workspaces.agents import health as health_room
from workspaces.live.hub import ALL
from workspaces.registries.policy import Policy

GAUGE = "daedalus_agent_health"


def gauge(town: Town, instance: str, agent: str) -> float | None:
    """The series of an agent; None if there is none."""
    registry = town.world.lab.process.probes.metrics
    return registry.get_sample_value(GAUGE, {"instance": instance, "agent": agent})


@requirement("P-4.6", "P-4.7", "P-4.8")
async def test_new_agents_are_checked_at_once_and_shown(town: Town) -> None:
    well, slow, ill = town.offer(), town.offer(), town.offer()
    town.agents.healths |= {
        slow: {"status": "degraded", "message": "Avg response 12s"},
        ill: {"status": "error", "message": "Argos unreachable"},
    }
    instance = await town.world.register("Puck")
    book = town.world.lab.service.parts.agents.health
    await eventually(lambda: "unknown" not in {book.of(instance, name).status for name in (well, slow, ill)})
    shown = {one.server_id: one for one in await town.statuses() if one.instance_id == instance}
    assert {name: (one.health.status, one.health.message) for name, one in shown.items()} == {
        well: ("ok", None),
        slow: ("degraded", "Avg response 12s"),
        ill: ("error", "Argos unreachable"),
    }
    assert {one.instance for one in shown.values()} == {"Puck"}
    assert shown[well].health.at is not None
    assert [gauge(town, "Puck", name) for name in (well, slow, ill)] == [1.0, 0.5, 0.0]
    [agent] = [one for one in (await town.world.instance(instance))["agents"] if one["server_id"] == slow]
    assert agent["health"]["status"] == "degraded"


@requirement("P-4.6")
async def test_a_check_has_neither_arguments_nor_a_progress_token(town: Town) -> None:
    name = town.offer()
    await town.world.register()
    await town.agents.until_called(name)
    [asked] = town.agents.calls(name)
    assert set(asked.params) == {"name", "_meta"}
    assert all(key.startswith("io.modelcontextprotocol/") for key in asked.params["_meta"])


@requirement("P-4.9")
async def test_an_agent_that_is_not_there_is_in_error_until_it_is(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    name = town.offer()
    town.agents.modes[name] = "status_503"
    instance = await town.world.register()
    book = town.world.lab.service.parts.agents.health
    await eventually(lambda: book.of(instance, name).status == "error")
    town.agents.modes[name] = "well"
    async with town.world.lab.service.parts.hub.subscribe(ALL) as told:
        assert (await book.check_now(instance, name)).status == "error", "it was checked a moment ago"
        monkeypatch.setattr(health_room, "AGAIN_SECONDS", 0)
        assert (await book.check_now(instance, name)).status == "ok"
        monkeypatch.setattr(health_room, "AGAIN_SECONDS", 5)
        assert (await book.check_now(instance, name)).status == "ok"
        assert len(town.agents.calls(name)) == 1, "the first check did not get so far"
        item = await soon(anext(told))
        while item.kind != "health":
            item = await soon(anext(told))
    assert (item.data["server_id"], item.data["health"]["status"]) == (name, "ok")


async def test_series_of_agents_that_are_gone_vanish(town: Town) -> None:
    stays, goes = town.offer(), town.offer()
    instance = await town.world.register("Changing")
    await eventually(lambda: gauge(town, "Changing", goes) == 1.0 and gauge(town, "Changing", stays) == 1.0)
    town.world.registry.servers.pop()
    assert (await town.world.http.post(f"{API}/pallas/{instance}/refresh")).status_code == 200
    await eventually(lambda: gauge(town, "Changing", goes) is None)
    assert gauge(town, "Changing", stays) == 1.0
    assert [one.server_id for one in await town.statuses() if one.instance_id == instance] == [stays]
    assert (await town.world.http.delete(f"{API}/pallas/{instance}")).status_code == 204
    await eventually(lambda: gauge(town, "Changing", stays) is None)


async def test_agents_get_the_token_of_their_instance(town: Town) -> None:
    name = town.offer()
    instance = await town.world.register("Guarded", agent_token="secret-of-the-agent")
    await town.agents.until_called(name)
    [asked] = town.agents.calls(name)
    assert asked.authorization == "Bearer secret-of-the-agent"
    changed = await town.world.http.patch(f"{API}/pallas/{instance}", json={"agent_token": "another"})
    assert changed.status_code == 200
    await town.agents.until_called(name, 2)
    assert town.agents.calls(name)[-1].authorization == "Bearer another"
    target = await town.world.lab.service.parts.agents.targets.target_of(instance, name)
    assert (target.url, target.token) == (town.agents.url(name), "another")
    assert "another" not in repr(target)


async def test_only_agents_of_the_platform_s_own_registries_get_its_bearer(database: str) -> None:
    async with RawAgents() as agents, Registry() as own:
        settings = {"health_interval": "3600", "agent_token": "of-the-platform", "own_registries": own.base}
        async with a_world(database, **settings) as world:
            for registry, name in ((own, "ours"), (world.registry, "stranger"), (world.registry, "guarded")):
                remotes = [{"type": "streamable-http", "url": agents.url(name)}]
                registry.servers[:] = [entry(f"test/{name}", remotes=remotes)]
                token = {"agent_token": "its-own"} if name == "guarded" else {}
                body = {"registry_url": f"{registry.base}/teams/{name}", "name": name, **token}
                assert (await world.http.post(f"{API}/pallas", json=body)).status_code == 201
                await agents.until_called(name)
    sent = {name: agents.calls(name)[0].authorization for name in ("ours", "stranger", "guarded")}
    assert sent == {"ours": "Bearer of-the-platform", "stranger": None, "guarded": "Bearer its-own"}


async def test_an_agent_that_an_own_registry_has_from_another_one_never_gets_the_platform_s_bearer(
    database: str,
) -> None:
    async with RawAgents() as agents, Registry() as own:
        remotes = {name: [{"type": "streamable-http", "url": agents.url(name)}] for name in ("ours", "theirs")}
        marked = {"_meta": {"io.pallas/foreign": True}}
        own.servers[:] = [
            entry("z/ours", remotes=remotes["ours"]),
            entry("a/theirs", remotes=remotes["theirs"]) | marked,
        ]
        settings = {"health_interval": "3600", "agent_token": "of-the-platform", "own_registries": own.base}
        async with a_world(database, **settings) as world:
            workspace = await world.workspace(await world.register("All", registry_url=own.base))
            for name in remotes:
                await agents.until_called(name)
                talk = await begin(world.http, workspace)
                await talk.send(server_id=name)
                await agents.until_called(name, tool="send_message")
    for name, bearer in (("ours", "Bearer of-the-platform"), ("theirs", None)):
        assert {one.authorization for one in agents.asked if one.agent == name} == {bearer}


@requirement("P-4.6")
async def test_the_interval_of_the_settings_holds_at_once_and_within_ten_percent(town: Town) -> None:
    name, times = town.offer(), list[float]()
    await town.world.register()
    await town.agents.until_called(name)
    await town.world.http.put(f"{API}/settings", json={"health_interval": 1})
    try:
        await town.agents.until_called(name, 2)
        for count in (3, 4, 5):
            times.append(asyncio.get_running_loop().time())
            await town.agents.until_called(name, count)
        times.append(asyncio.get_running_loop().time())
        pauses = [later - earlier for earlier, later in pairwise(times)]
        assert all(0.85 < pause < 1.3 for pause in pauses), pauses
        answer: dict[str, Any] = (await town.world.http.get(f"{API}/agents/status")).json()
        assert answer["interval"] == 1
    finally:
        await town.world.http.put(f"{API}/settings", json={"health_interval": 3600})


async def test_a_health_that_is_too_old_is_an_error(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    name = town.offer()
    instance = await town.world.register()
    book = town.world.lab.service.parts.agents.health
    await eventually(lambda: book.of(instance, name).status == "ok")
    monkeypatch.setattr(health_room, "STALE_INTERVALS", 0)
    view = book.of(instance, name)
    assert (view.status, view.message) == ("error", "not checked")
    assert view.at is not None


async def test_an_agent_at_an_address_that_is_not_allowed_is_not_called(town: Town) -> None:
    policy = Policy((ip_network("10.0.0.0/8"),))
    async with AgentCalls(policy.transport()) as calls:
        report = await calls.health(Target(town.agents.url("forbidden")))
    assert (report.status, report.message) == ("error", "the agent cannot be reached: no connection")
    assert "forbidden" not in {one.agent for one in town.agents.asked}


async def test_at_most_so_many_agents_are_checked_at_once(town: Town) -> None:
    for _ in range(100):
        town.agents.modes[town.offer()] = "hang_before"
    town.agents.most_at_once = 0
    instance = await town.world.register("Many")
    await eventually(lambda: town.agents.at_once >= 24)  # checks of other agents may be under way
    town.agents.go.set()
    book = town.world.lab.service.parts.agents.health
    await eventually(lambda: all(one.health.status == "ok" for one in book.statuses() if one.instance_id == instance))
    assert 24 <= town.agents.most_at_once <= 32
    town.agents.go.clear()


async def test_a_token_that_cannot_be_read_is_an_error_and_stops_nothing(town: Town) -> None:
    name = town.offer()
    instance = await town.world.register(agent_token="secret")
    engine = town.world.lab.service.parts.engine
    async with engine.begin() as connection:
        await connection.execute(
            text("update pallas_instances set agent_token_encrypted = 'x' where id = :id"), {"id": instance}
        )
    await town.world.lab.service.parts.hub.tell(ALL, "instance", {"id": instance})
    book = town.world.lab.service.parts.agents.health
    await eventually(lambda: "encrypted" in (book.of(instance, name).message or ""))
    await town.world.http.delete(f"{API}/pallas/{instance}")


async def test_an_agent_is_reached_at_the_origin_that_is_set_for_the_one_of_its_registry(database: str) -> None:
    async with RawAgents() as agents:
        published, name = "https://agents.example.com", "far"
        async with a_world(database, health_interval="3600", origins=f"{published}={agents.base}") as world:
            url = agents.url(name).replace(agents.base, published)
            remotes = [{"type": "streamable-http", "url": url}]
            world.registry.servers[:] = [entry(f"test/{name}", remotes=remotes)]
            instance = await world.register()
            await agents.until_called(name)
            book = world.lab.service.parts.agents.health
            await eventually(lambda: book.of(instance, name).status == "ok")
            assert [agent["url"] for agent in (await world.instance(instance))["agents"]] == [url]
