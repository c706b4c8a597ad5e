"""Registering and attaching (interface contract, section 4): registries that are good, slow, hostile or away."""

import asyncio
import time
from typing import Any

import pytest
from tests.integration.workspaces.control.world import World
from tests.integration.workspaces.lab import API
from tests.requirements import requirement
from tests.workspaces_world.registry import DOCUMENT, LINK_LOCAL, Mode, Registry, entry

from workspaces.handlers import instances

ACTIONS = ("refresh", "reveal", "rotate", "provision", "check")


async def register(world: World, url: str, **fields: Any) -> Any:
    """Register an address. Returns the answer."""
    return await world.http.post(f"{API}/pallas", json={"registry_url": url, **fields})


@requirement("P-4.2", "P-4.3")
async def test_an_instance_is_stored_with_its_address_and_shows_its_agents(world: World) -> None:
    answer = await register(world, f" {world.registry.base}/.well-known/mcp/server.json ")
    assert answer.status_code == 201
    shown = answer.json()
    assert shown["registry_url"] == world.registry.base
    assert (shown["name"], shown["namespace"]) == ("ouranos", "ca.helu.ouranos")
    research = shown["agents"][0]
    assert (research["server_id"], research["title"]) == ("pallas-research", "Research Agent")
    assert research["description"] == "Web search via Argos and knowledge graph via Neo4j"
    assert research["icon"].startswith("/api/v1/icons/")
    assert research["capabilities"] == {
        "model": "qwen3-8b-q5",
        "vision": False,
        "context_window": 200000,
        "max_output_tokens": 32000,
    }
    [[stored]] = await world.rows("select agents -> 0 ->> 'icon' from pallas_instances")
    assert stored == DOCUMENT["servers"][0]["server"]["icons"][0]["src"]
    [asked] = world.registry.asked
    assert asked.headers["accept"] == "application/json"
    assert "authorization" not in asked.headers


async def test_the_same_address_again_is_the_same_instance(world: World) -> None:
    first = await register(world, world.registry.base)
    again = await register(world, f"{world.registry.base}/", name="Another name")
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json()["id"] == first.json()["id"]
    both = await asyncio.gather(*(register(world, f"{world.registry.base}/x") for _ in range(4)))
    assert len({one.json()["id"] for one in both}) == 1
    assert sorted(one.status_code for one in both) == [200, 200, 200, 201]


@pytest.mark.parametrize(
    ("mode", "status", "code", "says"),
    [
        ("page", 422, "bad_registry", "not application/json"),
        ("no_json", 422, "bad_registry", "not JSON"),
        ("large", 422, "bad_registry", "larger than 2 MiB"),
        ("large_silently", 422, "bad_registry", "larger than 2 MiB"),
        ("compressed", 422, "bad_registry", "compressed"),
        ("status", 502, "registry_unreachable", "status 503"),
        ("redirects", 502, "registry_unreachable", "more than 3 times"),
        ("elsewhere", 502, "registry_unreachable", "another host"),
        ("link_local", 502, "registry_unreachable", "another host"),
    ],
)
async def test_a_registry_that_misbehaves_is_refused_with_the_reason(
    world: World, mode: Mode, status: int, code: str, says: str
) -> None:
    world.registry.mode = mode
    answer = await register(world, world.registry.base)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert says in answer.json()["error"]
    assert answer.json().get("field") == ("registry_url" if status == 422 else None)
    assert await world.rows("select count(*) from pallas_instances") == [(0,)]


@pytest.mark.parametrize("mode", ["slow", "drip"])
async def test_a_slow_registry_is_given_up(world: World, mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workspaces.registries.fetch.SECONDS", 0.5)
    world.registry.mode = mode
    began = time.monotonic()
    answer = await register(world, world.registry.base)
    assert (answer.status_code, answer.json()["code"]) == (502, "registry_unreachable")
    assert time.monotonic() - began < 5


async def test_a_redirect_to_the_same_host_is_followed(world: World) -> None:
    world.registry.mode = "redirect"
    answer = await register(world, f"{world.registry.base}/teams/demo")
    assert (answer.status_code, answer.json()["name"]) == (201, "demo")


@pytest.mark.parametrize(
    "url",
    [
        LINK_LOCAL,
        "http://2852039166/",
        "http://0xa9fea9fe",
        "http://[fe80::1]:8080",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[fd00:ec2::254]/",
        "http://0.0.0.0:80",
    ],
)
async def test_an_address_that_must_not_be_asked_is_refused(world: World, url: str) -> None:
    answer = await register(world, url)
    assert (answer.status_code, answer.json()["code"]) == (422, "registry_forbidden")
    assert answer.json()["field"] == "registry_url"


async def test_a_name_that_leads_to_such_an_address_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = asyncio.get_running_loop().getaddrinfo

    async def rebound(host: Any, port: Any, **options: Any) -> Any:
        return await resolve("169.254.169.254" if host == "metadata.example" else host, port, **options)

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", rebound)
    answer = await register(world, "http://metadata.example")
    assert (answer.status_code, answer.json()["code"]) == (422, "registry_forbidden")


async def test_nobody_there_is_a_clear_sentence(world: World) -> None:
    await world.registry.stop()
    answer = await register(world, world.registry.base)
    await world.registry.start()
    assert (answer.status_code, answer.json()["code"]) == (502, "registry_unreachable")
    assert answer.json()["error"] == "the registry cannot be reached: no connection"


@requirement("P-4.2")
@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://puck.incus", "http:// or https://"),
        ("http://user:secret@puck.incus", "name or password"),
        ("http://puck.incus/?a=b", "query or fragment"),
        ("http://puck.incus/#a", "query or fragment"),
        ("http://", "name a host"),
        ("", "must be"),
        ("http://puck.incus/\u0000", "must be"),
        ("http://[::1", "not an address"),
        ("http://puck.incus/%00", "not an address"),
    ],
)
async def test_a_bad_address_is_refused_with_field_and_reason(world: World, url: str, says: str) -> None:
    answer = await register(world, url)
    assert (answer.status_code, answer.json()["field"]) == (422, "registry_url")
    assert says in answer.json()["error"]
    assert "secret" not in answer.text


@requirement("P-4.4", "P-4.5")
async def test_attaching_fetches_again_and_detaching_removes_all_connections(world: World) -> None:
    instance, other = await world.provisioned("Kottos"), await world.provisioned("Mentor")
    world.registry.servers = [
        *DOCUMENT["servers"],
        entry("ca.helu.ouranos/pallas-third", title="Third"),
    ]
    world.registry.asked.clear()
    workspace = await world.workspace(instance)
    assert len(world.registry.asked) == 1
    statement = "select server_id from agent_connections where pallas_instance_id = :id order by 1"
    assert await world.rows(statement, id=instance) == [("pallas-infra",), ("pallas-research",), ("pallas-third",)]
    attached = await world.attach(workspace, instance, other)
    assert [(one["name"], one["agents"], one["warning"]) for one in attached["instances"]] == [
        ("Kottos", 3, None),
        ("Mentor", 3, None),
    ]
    await world.attach(workspace, other)
    assert await world.rows(statement, id=instance) == []
    assert len(await world.rows(statement, id=other)) == 3


@requirement("P-4.4", "P-4.12")
async def test_a_team_whose_registry_is_away_is_attached_with_a_warning(world: World) -> None:
    instance = await world.provisioned()
    world.registry.mode = "status"
    workspace = await world.workspace()
    attached = await world.attach(workspace, instance)
    [one] = attached["instances"]
    assert one["agents"] == 2
    assert one["warning"] == "the registry answered with status 503"
    assert (await world.instance(instance))["last_fetch_error"] == one["warning"]
    picker = (await world.http.get(f"{API}/workspaces/{workspace}/agents")).json()
    assert len(picker["agents"]) == 2
    world.registry.mode = "well"
    refreshed = (await world.http.post(f"{API}/pallas/{instance}/refresh")).json()
    assert refreshed["last_fetch_error"] is None


async def test_entries_that_cannot_be_used_are_listed_with_the_reason(world: World) -> None:
    world.registry.servers = [
        entry("a/good", title="Good"),
        entry("a/good", title="Twice"),
        entry("a/no-remote", remotes=[{"type": "sse", "url": "http://x/"}]),
        entry("a/", title="No id"),
        entry("a/\u202ereversed"),
        entry("a/metadata", remotes=[{"type": "streamable-http", "url": LINK_LOCAL}]),
        entry("a/script", remotes=[{"type": "streamable-http", "url": "javascript:alert(1)"}]),
        "not an entry",
        {"server": None},
        entry("a/long", title="T" * 5000, description="\u0000\n" + "d" * 5000, version=7, icons="none"),
    ]
    shown = (await register(world, world.registry.base)).json()
    assert [agent["server_id"] for agent in shown["agents"]] == ["good", "long"]
    assert len(shown["agents"][1]["title"]) == 200
    assert len(shown["agents"][1]["description"]) == 1000
    reasons = [one["reason"] for one in shown["unusable"]]
    assert len(reasons) == 8
    assert reasons[0] == "the id 'good' is listed twice"
    assert reasons[1] == "it has no remote of the type streamable-http"


async def test_workspaces_are_made_renamed_and_deleted(world: World) -> None:
    made = await world.http.post(f"{API}/workspaces", json={"name": " Demo \n space ", "id": "demo"})
    assert (made.status_code, made.json()["name"], made.json()["id"]) == (201, "Demo space", "demo")
    again = await world.http.post(f"{API}/workspaces", json={"name": "Again", "id": "demo"})
    assert (again.status_code, again.json()["code"]) == (409, "workspace_exists")
    renamed = await world.http.patch(f"{API}/workspaces/demo", json={"name": "Other"})
    assert renamed.json()["name"] == "Other"
    listed = (await world.http.get(f"{API}/workspaces")).json()["workspaces"]
    assert [(one["id"], one["instance_ids"], one["conversations"]) for one in listed] == [("demo", [], 0)]
    assert (await world.http.delete(f"{API}/workspaces/demo")).status_code == 204
    assert (await world.http.get(f"{API}/workspaces/demo")).json()["code"] == "no_workspace"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "field"),
    [
        ("POST", "/workspaces", {"name": " "}, 422, "name"),
        ("POST", "/workspaces", {"name": "\u200b"}, 422, "name"),
        ("POST", "/workspaces", {"name": "x", "id": "a b"}, 422, "id"),
        ("POST", "/workspaces", {"name": "x", "id": ".."}, 422, "id"),
        ("GET", "/workspaces/%00", None, 422, "workspace_id"),
        ("POST", "/workspaces/demo/pallas/%00", None, 422, "instance_id"),
        ("PUT", "/workspaces/demo/pallas", {"instance_ids": ["\0"]}, 422, "instance_ids.0"),
        ("GET", "/deliveries?instance_id=%00", None, 422, "instance_id"),
        ("POST", "/workspaces", {"name": "x", "further": 1}, 422, "further"),
        ("PUT", "/workspaces/none/pallas", {"instance_ids": []}, 404, None),
        ("PUT", "/workspaces/demo/pallas", {"instance_ids": ["none"]}, 422, "instance_ids"),
        ("POST", "/workspaces/demo/pallas/none", None, 404, None),
        ("DELETE", "/workspaces/demo/pallas/none", None, 404, None),
        ("GET", "/workspaces/none/agents", None, 404, None),
        ("POST", "/pallas", {"registry_url": "http://x", "agent_token": "a b"}, 422, "agent_token"),
        ("PATCH", "/pallas/none", {"name": "x"}, 404, None),
        *[("POST", f"/pallas/none/{action}", None, 404, None) for action in ACTIONS],
        ("PUT", "/settings", {"health_interval": 0}, 422, "health_interval"),
        ("PUT", "/settings", {"history_share": 2}, 422, "history_share"),
    ],
)  # fmt: skip
async def test_bad_requests_name_the_field(
    world: World, method: str, path: str, body: Any, status: int, field: str | None
) -> None:
    await world.http.post(f"{API}/workspaces", json={"name": "Demo", "id": "demo"})
    answer = await world.http.request(method, f"{API}{path}", json=body)
    assert (answer.status_code, answer.json().get("field")) == (status, field), answer.text


async def test_instances_are_renamed_and_get_tokens(world: World) -> None:
    instance = await world.provisioned("Kottos")
    workspace = await world.workspace(instance)
    changed = await world.http.patch(f"{API}/pallas/{instance}", json={"name": "Briareos", "agent_token": "t0ken"})
    assert (changed.json()["name"], changed.json()["has_agent_token"]) == ("Briareos", True)
    [[sealed]] = await world.rows("select agent_token_encrypted from pallas_instances")
    assert world.lab.service.parts.control.vault.open(sealed) == "t0ken"
    picker = (await world.http.get(f"{API}/workspaces/{workspace}/agents")).json()
    assert picker["agents"][0]["label"].startswith("Briareos › ")
    removed = await world.http.patch(f"{API}/pallas/{instance}", json={"agent_token": ""})
    assert removed.json()["has_agent_token"] is False


async def test_there_are_no_more_instances_than_are_allowed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.register()
    monkeypatch.setattr(instances, "MOST_INSTANCES", 1)
    refused = await world.http.post(f"{API}/pallas", json={"registry_url": f"{world.registry.base}/teams/more"})
    assert (refused.status_code, refused.json()["code"]) == (409, "too_many")


async def test_a_name_that_mnemosyne_does_not_take_is_told(world: World) -> None:
    instance = await world.provisioned("Kottos")
    await world.http.patch(f"{API}/pallas/{instance}", json={"name": "Briareos"})
    await world.until_quiet()
    assert (await world.instance(instance))["drift"] == "The libraries have this team as 'Kottos'."


async def test_agents_of_instances_with_one_name_are_told_apart(world: World) -> None:
    async with Registry() as second:
        bases = [world.registry.base, second.base]
        made = [await world.http.post(f"{API}/pallas", json={"registry_url": base}) for base in bases]
        hosts = [base.removeprefix("http://") for base in bases]
        assert [each.json()["name"] for each in made] == ["ouranos", f"ouranos ({hosts[1]})"]
        ids = [each.json()["id"] for each in made]
        renamed = [await world.http.patch(f"{API}/pallas/{each}", json={"name": "Same"}) for each in ids]
        assert [each.status_code for each in renamed] == [200, 409]
        names = {"Same", f"ouranos ({hosts[1]})"}
        workspace = await world.workspace(*ids)
        picker = (await world.http.get(f"{API}/workspaces/{workspace}/agents")).json()
        labels = [agent["label"] for agent in picker["agents"]]
        assert len(set(labels)) == len(labels) == 4
        assert {label.partition(" › ")[0] for label in labels} == names
        agents = await world.lab.service.parts.agents.targets.all()
        assert {agent.instance for agent in agents} == names


async def test_agents_of_one_instance_with_one_title_are_told_apart(world: World) -> None:
    world.registry.servers[1]["server"]["title"] = world.registry.servers[0]["server"]["title"]
    instance = await world.register("Kottos")
    workspace = await world.workspace(instance)
    picker = (await world.http.get(f"{API}/workspaces/{workspace}/agents")).json()
    assert [agent["label"] for agent in picker["agents"]] == [
        "Kottos › Research Agent (pallas-infra)",
        "Kottos › Research Agent (pallas-research)",
    ]


async def test_settings_are_changed_one_by_one(world: World) -> None:
    defaults = (await world.http.get(f"{API}/settings")).json()
    assert (defaults["health_interval"], defaults["reconcile_interval"]) == (60, 300)
    changed = (await world.http.put(f"{API}/settings", json={"health_interval": 30})).json()
    assert changed == {**defaults, "health_interval": 30}
    changed = (await world.http.put(f"{API}/settings", json={"history_messages": 10})).json()
    assert changed == {**defaults, "health_interval": 30, "history_messages": 10}
