"""The client of Coder on 55 recorded exchanges of a real one: its requests are the recorded ones, and it reads all."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from pydantic import TypeAdapter
from tests.requirements import requirement
from tests.unit.fleet.recordings import EXCHANGES, Exchange, Playback, coder_of, http_of, recorded

from fleet.coder.client import PROMPT, RICH, Coder, roles_of
from fleet.coder.model import Template, Workspace
from fleet.coder.rest import Rest
from fleet.coder.tasks import TaskApi
from pallas_contracts.errors import Rejected

type Drive = Callable[[Coder, Rest, Exchange], Awaitable[None]]
_ANY: TypeAdapter[Any] = TypeAdapter(Any)


def workspace_of(owner: str, workspace_id: str) -> Workspace:
    """A workspace of which only owner and id matter."""
    plain = Workspace.model_validate(recorded(0))
    return plain.model_copy(update={"owner": owner, "id": workspace_id})


async def create(coder: Coder, rest: Rest, one: Exchange) -> None:
    """Make a workspace, or be told what is wrong with its name."""
    template = Template(id=one.body["template_id"], name="", organization_id=one.path.split("/")[4])
    preset = one.body.get("template_version_preset_id")
    parameters = {each["name"]: each["value"] for each in one.body["rich_parameter_values"]}
    assert set(parameters) <= {PROMPT}
    if one.status == 201:
        made = await coder.create(one.body["name"], template, preset_id=preset, parameters=parameters)
        assert (made.id, made.name, made.job_status) == (one.answer["id"], one.body["name"], "pending")
        assert not made.running
        return
    with pytest.raises(Rejected, match=r"^Coder refuses: Validation failed\. name: ") as caught:
        await coder.create(one.body["name"], template, preset_id=preset, parameters=parameters)
    assert caught.value.facts["validations"] == one.answer["validations"]


async def read_task(coder: Coder, rest: Rest, one: Exchange) -> None:
    """Read the state of a task."""
    owner, workspace_id = one.path.split("/")[4:6]
    workspace = workspace_of(owner, workspace_id)
    task = await TaskApi(rest).find(workspace)
    if one.status != 200:
        assert task is None
        return
    assert task is not None
    assert task.initial_prompt == one.answer["initial_prompt"]
    state, said = one.answer["current_state"], await TaskApi(rest).state(workspace)
    assert (said and (said.state, said.message)) == (state and (state["state"], state["message"]))


async def read_workspace(coder: Coder, rest: Rest, one: Exchange) -> None:
    found = await coder.workspace(one.path.split("/")[4])
    assert (found and found.id) == one.answer.get("id")


async def read_workspaces(coder: Coder, rest: Rest, one: Exchange) -> None:
    found = await coder.workspaces()
    assert [each.name for each in found] == ["fleet-mcp-clean", "Henk", "test-recording-agent"]
    assert all(each.running and each.has_ai_task for each in found)


async def delete(coder: Coder, rest: Rest, one: Exchange) -> None:
    """Delete a workspace."""
    assert await coder.start_build(one.path.split("/")[4], "delete") == one.answer["id"]


async def read_templates(coder: Coder, rest: Rest, one: Exchange) -> None:
    assert [each.display_name for each in await coder.templates()] == ["Setup", "DataOne"]


async def read_presets(coder: Coder, rest: Rest, one: Exchange) -> None:
    """Read the roles of a template."""
    template = Template(id="", name="", active_version_id=one.path.split("/")[4])
    found = await roles_of(rest, template)
    assert [(role.name, role.display_name) for role in found] == [
        ("coder", "Coder"),
        ("operator", "Operator"),
        ("researcher", "Researcher"),
    ]
    assert [role.preset_id for role in found] == [each["ID"] for each in one.answer]


async def read_parameters(coder: Coder, rest: Rest, one: Exchange) -> None:
    """Read the parameters of a template."""
    found = await rest.have(one.path[1:], RICH)
    assert [(each.name, each.options) for each in found] == [(PROMPT, ()), ("system_prompt", ())]


async def pass_on(coder: Coder, rest: Rest, one: Exchange) -> None:
    """What the fleet does at the terminal, or learns from elsewhere: the exchange as it is."""
    if one.method == "POST":
        assert (await rest.send("POST", one.path[1:], body=one.body)).status == one.status
    else:
        assert await rest.get(one.path[1:], _ANY) == (one.answer if one.status == 200 else None)


ROUTES: dict[str, Drive] = {
    r"POST .*/members/me/workspaces": create,
    r"POST .*/workspaces/[^/]+/builds": delete,
    r"GET .*/tasks/[^/]+/[^/]+": read_task,
    r"GET .*/v2/workspaces": read_workspaces,
    r"GET .*/v2/workspaces/[^/]+": read_workspace,
    r"GET .*/v2/templates": read_templates,
    r"GET .*/presets": read_presets,
    r"GET .*/rich-parameters": read_parameters,
    r"POST .*/send|GET .*/(logs|organizations|templates/[^/]+)": pass_on,
}


@requirement("F-common-8")
@pytest.mark.parametrize("one", EXCHANGES, ids=lambda one: f"{one.number}-{one.method}-{one.path.rsplit('/', 1)[1]}")
async def test_a_recorded_exchange_is_what_the_client_does(one: Exchange) -> None:
    playback = Playback()
    [drive] = [each for route, each in ROUTES.items() if re.fullmatch(route, f"{one.method} {one.path}")]
    await drive(coder_of(playback), Rest(http_of(playback)), one)
    assert one.number in playback.served
    assert set(playback.served) == {one.number}


def test_there_are_55_recordings() -> None:
    assert len(EXCHANGES) == len({one.key for one in EXCHANGES}) == 55


async def test_a_request_that_was_not_recorded_names_the_nearest() -> None:
    with pytest.raises(AssertionError, match=r"nearest: GET /api/v2/templates \{\} null"):
        await Rest(http_of(Playback())).send("GET", "api/v2/template")


async def test_a_workspace_whose_agent_is_disconnected_does_not_run() -> None:
    found = await coder_of(Playback()).workspace("8a32a430-ed26-479c-a6e4-c030d140547e")
    assert found is not None
    assert (found.transition, found.job_status, found.agents[0].status) == ("start", "succeeded", "disconnected")
    assert not found.running


async def test_reports_of_the_agent_are_those_of_its_app() -> None:
    found = await coder_of(Playback()).workspace("5d9aa1c3-c2a1-4205-875e-978ba2189bbf")
    assert found is not None
    assert found.reported is not None
    assert (found.reported.state, found.reported.message) == ("idle", "Understanding test recording requirements")
    assert found.reported.at.isoformat() == "2025-11-10T10:40:12.875825+00:00"


async def test_the_terminal_is_the_app_ccw_below_coders_address() -> None:
    coder = coder_of(Playback())
    found = await coder.workspace("5d9aa1c3-c2a1-4205-875e-978ba2189bbf")
    assert found is not None
    terminal = coder.terminal(found)
    assert terminal is not None
    assert terminal.url == httpx2.URL("https://coder.example/@owner/test-recording-agent.main/apps/ccw/")
