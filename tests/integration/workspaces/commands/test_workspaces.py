"""`pallas workspaces` and `pallas console` against a running service."""

import re
import webbrowser
from urllib.parse import urlsplit

import pytest
from tests.integration.pallas_command import Pallas
from tests.integration.workspaces.control.world import World
from tests.integration.workspaces.lab import PASSWORD, client_of, log_in
from tests.requirements import requirement


@requirement("A-9.2.1", "A-9.2.2", "A-4.2.5")
async def test_teams_are_attached_and_detached_by_name(pallas: Pallas, world: World) -> None:
    kottos, mentor = await world.provisioned("Kottos"), await world.provisioned("Mentor")
    created = await pallas.done("workspaces", "create", "Research", "--id", "research")
    assert created.out == "Created workspace research. No teams are attached to it.\n"
    assert (await pallas.done("workspaces", "show", "Research")).out == (
        "research Research\n  conversations: 0\n"
        "  No teams attached to this workspace. Go to workspace settings → Attached Teams.\n"
    )
    attached = await pallas.done("workspaces", "attach", "research", "Kottos", mentor)
    assert (attached.out, attached.err) == ("Workspace research has: Kottos, Mentor.\n", "")
    assert "  Kottos › Engineering Agent: " in (await pallas.done("workspaces", "show", "research")).out
    [row] = (await pallas.done("workspaces", "list")).rows
    assert row[:4] == ["research", "Research", "Kottos, Mentor", "0"]
    detached = await pallas.done("workspaces", "detach", "Research", "Mentor", "--json")
    assert [it["instance_id"] for it in detached.json["instances"]] == [kottos]
    await world.until_quiet()
    assert world.mnemosyne.knows(kottos) == (True, ["research"])
    assert world.mnemosyne.knows(mentor) == (True, [])


async def test_a_workspace_is_deleted_after_a_confirmation_and_its_teams_lose_it(pallas: Pallas, world: World) -> None:
    kottos = await world.provisioned("Kottos")
    workspace = await world.workspace(kottos)
    [line] = await pallas.refused("workspaces", "delete", workspace, code=2)
    assert line.startswith(
        f"pallas: to confirm that workspace {workspace} and its conversations are deleted, pass --yes"
    )
    assert (await pallas.done("workspaces", "delete", workspace, "--yes")).out == f"Deleted workspace {workspace}.\n"
    await world.until_quiet()
    assert world.mnemosyne.knows(kottos) == (True, [])
    assert (await pallas.done("workspaces", "list")).out == "There are no workspaces.\n"


async def test_names_are_found_in_any_case(pallas: Pallas, world: World) -> None:
    await world.provisioned("Kottos")
    await pallas.done("workspaces", "create", "Research", "--id", "r1")
    attached = await pallas.done("workspaces", "attach", "RESEARCH", "kottos")
    assert attached.out == "Workspace r1 has: Kottos.\n"


async def test_bad_words_are_reported_in_one_line(pallas: Pallas, world: World) -> None:
    await world.register("mentor")
    await world.register("Kottos")
    await pallas.done("workspaces", "create", "Research", "--id", "research")
    refusals = {
        ("attach", "other", "x"): "no workspace has the id or name 'other'; there are: Research\n",
        ("attach", "research", "x"): "no instance has the id or name 'x'; there are: Kottos, mentor\n",
        ("create", "Again", "--id", "research"): "there is a workspace 'research' already",
        ("create", "Again", "--id", "a/b"): "id: ",
        ("create", ""): "name: must be a text of 1 to 200 characters",
    }
    for words, expected in refusals.items():
        [line] = await pallas.refused("workspaces", *words)
        assert f"{line}\n".startswith(f"pallas: {expected}"), line
    pallas.environ["PALLAS_ADMIN_PASSWORD"] = "hunter2"
    [line] = await pallas.refused("workspaces", "list")
    assert line == "pallas: the password of the account `admin` is wrong (PALLAS_ADMIN_PASSWORD, --data)"


async def test_another_address_is_reported(pallas: Pallas, world: World) -> None:
    assert await pallas.refused("workspaces", "list", "--url", "http://127.0.0.1:1", code=3) == [
        "pallas: the console at http://127.0.0.1:1 cannot be reached: no connection; is `pallas up` running? "
        "(--url and --data select another stack)"
    ]
    for url in (world.mnemosyne.base, world.registry.base):
        [line] = await pallas.refused("workspaces", "list", "--url", url)
        assert line == f"pallas: {url}/ answers, but it is not the console"


async def test_the_link_to_the_console_logs_in_once(
    pallas: Pallas, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = list[str]()

    def open_(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", open_)
    result = await pallas.done("console", "--open")
    assert re.fullmatch(r"It logs in once, until \d\d:\d\d\.\n", result.err)
    assert [result.out.strip()] == opened
    link = urlsplit(result.out.strip())
    assert f"{link.scheme}://{link.netloc}{link.path}" == f"{world.lab.base}/login"
    async with client_of(world.lab.base) as browser:
        token = link.fragment.removeprefix("once=")
        assert (await log_in(browser, once=token)).status_code == 200
        assert (await log_in(browser, once=token)).status_code == 401
    assert PASSWORD not in result.out


async def test_sessions_are_listed_and_ended(pallas: Pallas, world: World) -> None:
    listed = (await pallas.done("sessions", "list", "--json")).json
    assert {one["current"] for one in listed} == {False}
    shown = await pallas.done("sessions", "show", listed[0]["id"])
    assert "address: 127.0.0.1\n" in shown.out
    assert await pallas.refused("sessions", "show", "none") == ["pallas: there is no such session"]
    assert await pallas.refused("sessions", "delete", "none", "--yes") == ["pallas: there is no such session"]
    ended = await pallas.done("sessions", "delete", listed[0]["id"], "--yes")
    assert ended.out == f"Session {listed[0]['id']} has ended.\n"
    assert (await pallas.done("sessions", "delete", "--yes")).out == "All sessions have ended.\n"
    assert (await pallas.done("sessions", "list")).out == "There are no sessions.\n"
    assert (await world.lab.browser.get("/api/v1/session")).status_code == 401
