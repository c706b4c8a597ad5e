"""The auth contract, section 14.2: the tests that it names for Daedalus; and the way of an operator, section 9."""

import logging

import pytest
import yaml
from tests.integration.workspaces.control.world import LIBRARY, World
from tests.integration.workspaces.lab import API
from tests.requirements import requirement

from workspaces.mnemosyne.vault import Vault


@requirement("A-14.2.1", "A-8.1.1", "A-8.1.2", "A-8.1.3", "A-4.2.1", "A-13.3.3")
async def test_on_pallas_registered_populates_team_jwt_encrypted_and_transitions_status_to_provisioned(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        instance = await world.register("Kottos")
        shown = await world.until(instance, lambda one: one["status"] == "provisioned")
        await world.until_quiet()
    [created] = [one for one in world.mnemosyne.asked if one.method == "POST"]
    assert created.body == {"id": instance, "name": "Kottos"}
    assert shown["jwt"] == "ready"
    [[sealed]] = await world.rows("select team_jwt_encrypted from pallas_instances")
    vault = Vault.of(world.lab.service.parts.settings)
    assert vault.open(sealed) == world.mnemosyne.jwts[-1]
    [line] = [record for record in caplog.records if record.message == "pallas_team_provisioned"]
    assert vars(line)["team"] == instance
    assert vars(line)["correlation"] == created.correlation


@requirement("A-14.2.2", "A-8.3.1", "A-9.2.1")
async def test_on_workspace_pallas_attached_triggers_the_correct_put_payload(world: World) -> None:
    instance = await world.provisioned()
    first = await world.workspace(instance)
    second = await world.told(instance)
    last = [one for one in world.mnemosyne.asked if one.method == "PUT"][-1]
    assert last.path == f"/mcp_server/api/teams/{instance}/workspaces/"
    assert last.body == {"workspace_ids": sorted([first, second])}
    assert world.mnemosyne.knows(instance) == (True, sorted([first, second]))


@requirement("A-14.2.3", "A-10.2.1", "A-10.2.2", "A-9.2.2")
async def test_agent_picker_endpoint_filters_agent_connections_by_attached_pallas_instances(world: World) -> None:
    kottos, _mentor = await world.provisioned("Kottos"), await world.provisioned("Mentor")
    workspace = await world.workspace(kottos)
    picker = (await world.http.get(f"{API}/workspaces/{workspace}/agents")).json()
    assert [agent["label"] for agent in picker["agents"]] == ["Kottos › Engineering Agent", "Kottos › Research Agent"]
    assert {agent["instance_id"] for agent in picker["agents"]} == {kottos}
    assert picker["empty"] is None


@requirement("A-10.2.3", "A-10.1.1", "A-4.2.5")
async def test_an_empty_picker_has_the_sentence_and_the_link(world: World) -> None:
    await world.provisioned()
    workspace = await world.workspace()
    picker = (await world.http.get(f"{API}/workspaces/{workspace}/agents")).json()
    assert picker["agents"] == []
    assert picker["empty"]["text"] == (
        "No teams attached to this workspace. Go to workspace settings → Attached Teams."
    )
    assert picker["empty"]["link"].startswith(f"/workspaces/{workspace}/")


@requirement("A-9.1.1", "A-9.1.2", "A-9.3.1", "A-9.4.1", "A-4.2.2", "A-8.2.1", "A-13.4.2")
async def test_the_way_of_an_operator(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    instance = await world.provisioned()
    revealed = await world.http.post(f"{API}/pallas/{instance}/reveal", headers={"X-Request-ID": "reveal-1"})
    assert revealed.headers["cache-control"] == "no-store"
    first = revealed.json()["jwt"]
    assert world.mnemosyne.accepts(first)
    stanza = yaml.safe_load(revealed.json()["stanza"])
    assert stanza == {
        "mcp": {
            "servers": {
                "mnemosyne": {"transport": "http", "url": LIBRARY, "headers": {"Authorization": f"Bearer {first}"}}
            }
        }
    }
    again = await world.http.post(f"{API}/pallas/{instance}/reveal")
    assert (again.status_code, again.json()["code"]) == (409, "already_revealed")
    [seen] = [vars(record) for record in caplog.records if record.message == "pallas_team_jwt_revealed"]
    assert (seen["actor"], seen["address"], seen["correlation"]) == ("admin", "127.0.0.1", "reveal-1")

    rotated = await world.http.post(f"{API}/pallas/{instance}/rotate")
    assert (rotated.status_code, rotated.json()["jwt"]) == (200, "ready")
    assert not world.mnemosyne.accepts(first)
    second = await world.accepted(instance)

    assert (await world.http.delete(f"{API}/pallas/{instance}")).status_code == 204
    await world.until_quiet()
    assert not world.mnemosyne.accepts(second)
    actions = {record.message for record in caplog.records if record.message.startswith("pallas_team_")}
    assert {"pallas_team_provisioned", "pallas_team_rotated", "pallas_team_deleted"} <= actions
