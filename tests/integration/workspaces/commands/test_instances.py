"""`pallas instances` against a running service."""

import json
import stat
import uuid

import yaml
from tests.integration.pallas_command import Pallas
from tests.integration.workspaces.control.world import World
from tests.integration.workspaces.lab import API
from tests.requirements import requirement

OLD = "# mine\nanthropic:\n  api_key: sk-1  # keep\n"


async def register(pallas: Pallas, world: World, name: str, *words: str) -> str:
    """Register an instance by the command. Returns its id."""
    url = f"{world.registry.base}/teams/{uuid.uuid4().hex[:8]}"
    return (await pallas.done("instances", "create", url, "--name", name, *words, "--json")).json["id"]


@requirement("A-9.1.1")
async def test_register_waits_for_the_team_and_a_second_time_changes_nothing(pallas: Pallas, world: World) -> None:
    url = f"{world.registry.base}/teams/kottos"
    first = await pallas.done("instances", "create", f"{url}/")
    [row] = (await pallas.done("instances", "list", "--json")).json
    assert first.out == f"Registered kottos ({row['id']}) with 2 agents. Its team is provisioned.\n"
    assert (row["status"], row["jwt"], row["registry_url"]) == ("provisioned", "ready", url)
    again = await pallas.done("instances", "create", url)
    assert again.out == f"Already registered: kottos ({row['id']}) with 2 agents. Its team is provisioned.\n"
    listed = await pallas.done("instances", "list")
    assert listed.rows == [[row["id"], "kottos", "provisioned", "ready", "2", "-", url]]
    shown = await pallas.done("instances", "show", "kottos")
    assert shown.out.startswith(f"{row['id']} kottos\n  registry: {url}\n  team: provisioned\n  jwt: ready\n")
    assert "pallas-research: Research Agent, at http://puck.incus:23031/mcp\n" in shown.out


async def test_a_team_that_mnemosyne_has_keeps_its_id(pallas: Pallas, world: World) -> None:
    team = str(uuid.uuid4())
    assert await register(pallas, world, "Kottos", "--id", team) == team
    refusal = await pallas.refused("instances", "create", f"{world.registry.base}/teams/x", "--id", team)
    assert refusal == ["pallas: id: it is that of another instance, or of one that was deleted"]
    assert await pallas.refused("instances", "create", "ftp://x") == [
        "pallas: registry_url: must begin with http:// or https:// and name a host"
    ]


async def test_a_registry_that_is_away_is_refused_at_first_and_later_a_warning(pallas: Pallas, world: World) -> None:
    await register(pallas, world, "Kottos")
    world.registry.mode = "status"
    refusal = await pallas.refused("instances", "create", f"{world.registry.base}/teams/away")
    assert "the registry answered with status" in refusal[0]
    assert (
        "registry not read: the registry answered with status"
        in (await pallas.done("instances", "refresh", "Kottos")).out
    )


async def test_a_team_that_could_not_be_compared_is_told_with_the_reason(pallas: Pallas, world: World) -> None:
    await register(pallas, world, "Kottos")
    await world.until_quiet()
    world.mnemosyne.modes["GET"] = "web_page"
    await world.reconcile()
    reason = "Mnemosyne answered a web page instead of JSON"
    [row] = (await pallas.done("instances", "list", "--json")).json
    assert (row["status"], row["believed"]["error"]) == ("provisioned", reason)
    assert f"provisioned, not compared: {reason}" in (await pallas.done("instances", "list")).out
    shown = await pallas.done("instances", "show", "Kottos")
    assert shown.out.endswith(f"not compared with Mnemosyne: {reason}\n")


@requirement("A-9.1.2", "A-4.2.2")
async def test_a_jwt_is_revealed_into_a_file_once_and_never_shown(pallas: Pallas, world: World) -> None:
    instance = await register(pallas, world, "Kottos")
    file = pallas.folder / "fastagent.secrets.yaml"
    file.write_text(OLD)
    result = await pallas.done("instances", "reveal", "Kottos", "--into", file.name)
    jwt = world.mnemosyne.jwts[-1]
    assert result.out == f"The JWT of Kottos is in {file}. It cannot be shown again.\n"
    assert file.read_text().startswith(OLD)
    entry = yaml.safe_load(file.read_text())["mcp"]["servers"]["mnemosyne"]
    assert entry["headers"] == {"Authorization": f"Bearer {jwt}"}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    refusal = ["pallas: the JWT was shown before; rotate it to get another one"]
    assert await pallas.refused("instances", "reveal", instance, "--into", file.name) == refusal
    assert await pallas.refused("instances", "reveal", instance, "--yes") == refusal
    assert jwt not in "".join(result.out + result.err for result in pallas.results)


async def test_a_bad_file_is_refused_before_the_jwt_is_revealed(pallas: Pallas, world: World) -> None:
    instance = await register(pallas, world, "Kottos")
    (pallas.folder / "bad.yaml").write_text("- 1\n")
    refusal = await pallas.refused("instances", "reveal", "Kottos", "--into", "bad.yaml")
    assert refusal == [f"pallas: {pallas.folder}/bad.yaml: is no mapping"]
    assert (await world.instance(instance))["jwt"] == "ready"


@requirement("A-9.4.1")
async def test_rotate_makes_a_jwt_that_is_revealed_as_text_after_a_confirmation(pallas: Pallas, world: World) -> None:
    instance = await register(pallas, world, "Kottos")
    old = (await world.http.post(f"{API}/pallas/{instance}/reveal")).json()["jwt"]
    assert await pallas.refused("instances", "rotate", "Kottos", code=2) == [
        "pallas: to confirm that the current JWT of instance Kottos becomes invalid, pass --yes: it cannot be undone"
    ]
    rotated = await pallas.done("instances", "rotate", "Kottos", "--yes")
    assert rotated.out.endswith(f"Reveal it with:\n  pallas instances reveal {instance}\n")
    assert "is printed, once" in (await pallas.refused("instances", "reveal", "Kottos", code=2))[0]
    revealed = await pallas.done("instances", "reveal", "Kottos", "--yes")
    jwt = world.mnemosyne.jwts[-1]
    assert yaml.safe_load(revealed.out)["mcp"]["servers"]["mnemosyne"]["headers"] == {"Authorization": f"Bearer {jwt}"}
    assert revealed.err == "This belongs into fastagent.secrets.yaml of Kottos. It cannot be shown again.\n"
    assert world.mnemosyne.accepts(jwt)
    assert not world.mnemosyne.accepts(old)


@requirement("A-9.3.1", "A-8.2.1")
async def test_delete_retires_the_team(pallas: Pallas, world: World) -> None:
    instance = await register(pallas, world, "Kottos")
    [line] = await pallas.refused("instances", "delete", "Kottos", code=2)
    assert line.startswith("pallas: to confirm that instance Kottos and its team are deleted, pass --yes")
    result = await pallas.done("instances", "delete", "Kottos", "--yes")
    assert result.out == f"Deleted instance {instance} (Kottos). Mnemosyne is told to delete its team.\n"
    await world.until_quiet()
    assert world.mnemosyne.knows(instance) == (False, [])
    assert await pallas.refused("instances", "show", "Kottos") == ["pallas: no instance has the id or name 'Kottos'"]
    assert (await pallas.done("instances", "list")).out == "There are no instances.\n"


@requirement("A-14.2.4", "A-9.5.1", "A-9.5.2")
async def test_provision_teams_prints_new_jwts_whole_and_then_nothing_new(pallas: Pallas, world: World) -> None:
    world.mnemosyne.mode = "page"
    words = ("instances", "create", f"{world.registry.base}/teams/kottos")
    failed = await pallas.done(*words)
    assert "Its team is failed: " in failed.out
    [instance] = [row["id"] for row in (await pallas.done("instances", "list", "--json")).json]
    world.mnemosyne.mode = "well"
    first = await pallas.done("instances", "provision-teams")
    jwt = world.mnemosyne.jwts[-1]
    assert first.rows == [["kottos", instance, "provisioned", jwt]]
    assert world.mnemosyne.accepts(jwt)
    again = await pallas.done("instances", "provision-teams")
    assert again.rows == [["kottos", instance, "provisioned before", "-"]]
    as_json = json.loads((await pallas.done("instances", "provision-teams", "--json")).out)
    assert as_json == [
        {"team": "kottos", "instance": instance, "state": "provisioned before", "jwt": None, "failed": False}
    ]


async def test_provision_teams_names_what_cannot_be_provisioned_and_exits_with_1(pallas: Pallas, world: World) -> None:
    world.mnemosyne.mode = "page"
    await pallas.done("instances", "create", f"{world.registry.base}/teams/kottos")
    result = await pallas("instances", "provision-teams")
    assert result.code == 1
    assert result.rows[0][2].startswith("failed: ")
