"""An instance whose team Mnemosyne has already, such as one that was made before there was a console."""

import uuid

from tests.integration.workspaces.control.world import World
from tests.integration.workspaces.lab import API
from tests.workspaces_world.mnemosyne import KnownTeam


async def test_an_instance_with_the_id_of_a_known_team_is_that_team_with_another_jwt(world: World) -> None:
    team = KnownTeam(str(uuid.uuid4()), "Kottos")
    world.mnemosyne.teams[team.id] = team
    old = team.rotate()
    assert await world.register("Kottos", id=team.id.upper()) == team.id
    shown = await world.until(team.id, lambda one: one["status"] == "provisioned")
    assert shown["jwt"] == "ready"
    revealed = (await world.http.post(f"{API}/pallas/{team.id}/reveal")).json()["jwt"]
    assert world.mnemosyne.accepts(revealed)
    assert not world.mnemosyne.accepts(old)


async def test_an_id_that_another_instance_has_or_had_is_refused(world: World) -> None:
    living, deleted = await world.provisioned("Kottos"), await world.provisioned("Mentor")
    await world.http.delete(f"{API}/pallas/{deleted}")
    for taken in (living, deleted):
        body = {"registry_url": f"{world.registry.base}/teams/other", "id": taken}
        answer = await world.http.post(f"{API}/pallas", json=body)
        assert (answer.status_code, answer.json()["code"]) == (409, "id_taken")
    url = (await world.instance(living))["registry_url"]
    answer = await world.http.post(f"{API}/pallas", json={"registry_url": url, "id": str(uuid.uuid4())})
    assert (answer.status_code, answer.json()["code"]) == (409, "registered_already")
    assert (await world.http.post(f"{API}/pallas", json={"registry_url": url, "id": living})).status_code == 200
    answer = await world.http.post(f"{API}/pallas", json={"registry_url": url, "id": "kottos"})
    assert (answer.status_code, answer.json()["field"]) == (422, "id")


async def test_an_instance_that_is_hosted_elsewhere_stays_the_same_team(world: World) -> None:
    instance, other = await world.provisioned("Kottos"), await world.provisioned("Mentor")
    workspace = await world.workspace(instance)
    url = f"{world.registry.base}/teams/moved"
    moved = await world.http.patch(f"{API}/pallas/{instance}", json={"registry_url": f"{url}/"})
    assert moved.status_code == 200, moved.text
    assert (moved.json()["id"], moved.json()["registry_url"], moved.json()["jwt"]) == (instance, url, "ready")
    assert len((await world.http.get(f"{API}/workspaces/{workspace}/agents")).json()["agents"]) == 2
    taken = await world.http.patch(f"{API}/pallas/{other}", json={"registry_url": url})
    assert (taken.status_code, taken.json()["code"]) == (409, "registered_already")
    world.registry.mode = "status"
    away = await world.http.patch(f"{API}/pallas/{instance}", json={"registry_url": f"{url}/again"})
    assert away.status_code == 502
    assert (await world.instance(instance))["registry_url"] == url
