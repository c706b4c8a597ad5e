"""The nine tools through a real executor and log, with agents in real terminals."""

import asyncio
import json
import uuid
from typing import Any

import pytest
from tests.integration.fleet.lab import ALICE, Lab, result_of
from tests.integration.real_parts import until
from tests.requirements import requirement
from tests.unit.fleet.contract import block, fits, tools

from fleet.handlers.start_task import LONGEST_DESCRIPTION, failure_of_build
from pallas_contracts.agents import JsonObject
from pallas_contracts.turns import InputRequired, Principal, Progress
from pallas_demo.coder import Fault

CONTRACT = tools()


def example(tool: str, kind: str = "Example Output") -> Any:
    """An example of the contract."""
    return block(CONTRACT[tool][kind])


@requirement(
    "F-create_agent-5",
    "F-create_agent-6",
    "F-create_agent-7",
    "F-create_agent-10",
    "F-list_agents-1",
    "F-list_agents-2",
    "F-list_agents-3",
    "F-show_agent-1",
    "F-show_agent-2",
    "F-history-1",
    "F-history-2",
    "F-history-3",
    "F-history-4",
    "F-history-5",
    "F-delete_agent-2",
    "F-start_task-1",
    "F-stop_task-1",
    "F-roles-1",
    "F-roles-2",
    "F-projects-1",
)
async def test_each_tool_answers_as_the_contract_shows(lab: Lab) -> None:
    await lab.replica()
    given = example("create_agent", "Example Input")
    created = await lab.call("create_agent", **given)
    assert (created["agent"]["status"], created["agent"]["current_task"]) == ("idle", None)
    assert created["agent"]["spec"] == created["agent"]["metadata"]["fleet_mcp_agent_spec"] == given["spec"]
    assert (created["agent"]["project"], created["agent"]["role"]) == ("Setup", "coder")
    await lab.idle("papi")
    listed = await lab.call("list_agents")
    assert listed == {"agents": [{"name": "papi", "status": "idle", "current_task": None}], "total_count": 1}
    assert fits(example("list_agents"), listed)

    pull = "pr https://github.com/org/repo/pull/123 open passing; work 30 s"
    started = await lab.call("start_agent_task", agent_name="PAPI", task_description=pull)
    assert (started["task"]["summary"], started["task"]["status"], started["agent_status"]) == (pull, "running", "busy")
    assert started["task"].keys() == block(CONTRACT["start_agent_task"]["Output"])["task"].keys()
    assert fits(block(CONTRACT["start_agent_task"]["Output"]), started)

    async def reported() -> bool:
        shown = await lab.call("show_agent", agent_name="papi")
        return fits(example("show_agent"), shown)

    await until(reported)
    shown = (await lab.call("show_agent", agent_name="papi"))["agent"]
    assert (shown["status"], shown["current_task"]) == ("busy", pull)
    assert shown["workspace_id"] == created["agent"]["workspace_id"]
    assert shown["metadata"] == {
        "fleet_mcp_agent_spec": given["spec"],
        "fleet_mcp_pull_request_url": "https://github.com/org/repo/pull/123",
        "fleet_mcp_pull_request_status": "open",
        "fleet_mcp_pull_request_check_status": "passing",
    }
    busy = {"name": "papi", "status": "busy", "current_task": pull}
    assert (await lab.call("list_agents"))["agents"] == [busy]

    stopped = await lab.call("stop_agent_task", agent_name="papi")
    assert fits(example("stop_agent_task"), stopped)
    assert (stopped["task"]["id"], stopped["task"]["status"]) == (started["task"]["id"], "stopped")
    assert (stopped["agent_status"], stopped["message"]) == ("idle", "Task stopped successfully")
    assert (lab.coder.agent("papi").status, lab.coder.agent("papi").escapes) == ("stable", 1)
    assert (await lab.call("list_agents"))["agents"][0]["status"] == "idle"

    history = await lab.call("show_agent_task_history", agent_name="papi")
    assert fits(example("show_agent_task_history"), history)
    assert [(task["summary"], task["status"], task["source"]) for task in history["tasks"]] == [
        (pull, "stopped", "human"),
        (given["spec"], "completed", "human"),
    ]
    assert (history["total_count"], history["page"], history["page_size"], history["total_pages"]) == (2, 1, 20, 1)
    second = await lab.call("show_agent_task_history", agent_name="papi", page=2, page_size=1)
    assert [task["summary"] for task in second["tasks"]] == [given["spec"]]
    beyond = await lab.call("show_agent_task_history", agent_name="papi", page=9, page_size=500)
    assert (beyond["tasks"], beyond["total_count"], beyond["page_size"], beyond["total_pages"]) == ([], 2, 100, 1)

    roles = await lab.call("list_agent_roles", project="setup")
    assert fits(example("list_agent_roles"), roles)
    assert [role["name"] for role in roles["roles"]] == ["coder", "operator", "manager"]
    projects = await lab.call("list_agent_projects")
    assert fits(example("list_agent_projects"), projects)
    assert "Setup" in [project["name"] for project in projects["projects"]]

    ended = (await lab.call("show_agent", agent_name="papi"))["agent"]
    assert ended["updated_at"] >= stopped["task"]["completed_at"] >= shown["updated_at"]

    deleted = await lab.call("delete_agent", agent_name="Papi")
    assert deleted == example("delete_agent") | {
        "deleted_agent": {"name": "papi", "workspace_id": created["agent"]["workspace_id"]}
    }
    assert await lab.call("list_agents") == {"agents": [], "total_count": 0}
    assert (await lab.error("show_agent_task_history", agent_name="papi"))["error"] == "not_found"


def failure(error: JsonObject) -> tuple[str, int]:
    """The word and the status of an error."""
    return error["error"], error["details"]["status"]


BAD, ABSENT, CONFLICT, AWAY = ("bad_request", 400), ("not_found", 404), ("conflict", 409), ("service_unavailable", 503)


@requirement(
    "F-create_agent-1",
    "F-create_agent-2",
    "F-create_agent-3",
    "F-create_agent-4",
    "F-create_agent-8",
    "F-show_agent-3",
    "F-history-6",
    "F-delete_agent-3",
    "F-start_task-2",
    "F-start_task-3",
    "F-stop_task-2",
    "F-roles-3",
)
async def test_arguments_that_cannot_be_are_refused_by_every_tool(lab: Lab) -> None:
    _, name = await lab.with_agent(fleet_max_agents="1")
    new = {"name": "sony", "project": "Setup", "spec": "say hello"}
    for faults, text in (
        ({"name": "a b"}, "letters, digits and hyphens"),
        ({"name": ""}, "1 to 20 characters"),
        ({"name": "new"}, "reserved"),
        ({"name": name}, "already exists"),
        ({"name": name.upper()}, "already exists"),
        ({"project": "Nope"}, "projects are: "),
        ({"role": "director"}, "roles are: coder, operator, manager"),
        ({"spec": " \n"}, "must not be empty"),
        ({"spec": "x" * 32_769}, "at most 32768"),
        ({"spec": "a\x1bb"}, "control character U+001B"),
        ({}, "full: it has 1 agents"),
    ):
        error = await lab.error("create_agent", ALICE, **new | faults)
        assert failure(error) == BAD, error
        assert text in error["message"]
    for tool in ("show_agent", "show_agent_task_history", "delete_agent", "stop_agent_task"):
        error = await lab.error(tool, agent_name="nobody")
        assert (*failure(error), error["message"]) == (*ABSENT, "Agent 'nobody' does not exist.")
    error = await lab.error("start_agent_task", agent_name="nobody", task_description="x")
    assert failure(error) == ABSENT
    gone = await lab.error("delete_agent", agent_name="x" * 5000)
    assert (*failure(gone), gone["details"]["agent_name"]) == (*ABSENT, "x" * 59 + "…")
    for text in ("", " ", "a\x1b", "x" * 262_145):
        error = await lab.error("start_agent_task", agent_name=name, task_description=text)
        assert failure(error) == BAD, error
    assert failure(await lab.error("show_agent_task_history", agent_name=name, page=0)) == BAD
    assert failure(await lab.error("list_agent_roles", project="Nope")) == ABSENT
    stop = await lab.error("stop_agent_task", agent_name=name)
    assert (*failure(stop), stop["message"]) == (*ABSENT, f"Agent '{name}' has no running task; it is idle.")


@requirement("F-start_task-3", "F-stop_task-3")
async def test_an_agent_that_is_offline_gets_no_task_and_has_none_to_stop(lab: Lab) -> None:
    replica, name = await lab.with_agent()
    build = await replica.coder.start_build((await lab.workspace(name)).id, "stop")
    assert await failure_of_build(replica.coder, build, 10.0, lambda _: None) is None
    await lab.status(name, "offline")
    start = await lab.error("start_agent_task", agent_name=name, task_description="x")
    assert (*failure(start), start["message"]) == (*BAD, f"Agent '{name}' is offline: its workspace is stopped.")
    stop = await lab.error("stop_agent_task", agent_name=name)
    assert failure(stop) == BAD
    assert "not currently busy" in stop["message"]
    assert (await lab.call("show_agent", agent_name=name))["agent"]["status"] == "offline"
    await lab.call("delete_agent", agent_name=name)


@requirement("F-common-7")
@pytest.mark.parametrize(("mode", "wanted"), [("refuse", "degraded"), ("expired", "error")])
async def test_health_says_why_while_coder_is_away(lab: Lab, mode: Any, wanted: str) -> None:
    replica, name = await lab.with_agent()
    await lab.coder.fault(Fault(mode=mode))
    replica.service.fleet.forget()
    error = await lab.error("list_agents")
    assert (failure(error), lab.coder.token in str(error)) == (AWAY, False)

    async def told(status: str | None) -> bool:
        trouble = (await lab.presence(replica)).troubles.get("fleet.fleet")
        return (trouble and trouble.status) == status

    await until(lambda: told(wanted))
    await lab.coder.heal()
    assert (await lab.call("list_agents"))["total_count"] == 1
    await until(lambda: told(None))
    await lab.call("delete_agent", agent_name=name)


@requirement("F-create_agent-9")
async def test_a_workspace_that_cannot_be_provisioned_is_deleted_again(lab: Lab) -> None:
    await lab.replica()
    followed = await lab.start("create_agent", name="bad", project="Broken", spec="x")
    result = await result_of(followed)
    assert result.is_error
    error = (result.meta or {})["pallas/error"]
    assert failure(error) == AWAY
    assert error["details"]["code"] == "provisioning_failed"
    assert error["details"]["job_error"]
    assert any(isinstance(message, Progress) for message in followed.messages)
    assert await lab.call("list_agents") == {"agents": [], "total_count": 0}
    assert lab.known("bad") is None


async def test_a_project_without_coding_agents_is_refused_and_leaves_no_workspace(lab: Lab) -> None:
    await lab.replica()
    error = await lab.error("create_agent", name="bare", project="Plain", spec="x")
    assert (failure(error), error["details"]["field"]) == (("bad_request", 400), "project")
    assert "has no coding agents" in error["message"]
    assert await lab.call("list_agents") == {"agents": [], "total_count": 0}
    assert lab.known("bare") is None


@requirement("F-start_task-1")
async def test_a_task_that_could_not_begin_is_not_answered_as_running(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.running.watching.CHECK_SECONDS", 0.2)
    await lab.replica(fleet_create_wait="0")
    await lab.call("create_agent", name="bare", project="Plain", spec="x")
    await lab.idle("bare")  # it is noticed that it cannot do its specification
    for _ in range(3):
        error = await lab.error("start_agent_task", agent_name="bare", task_description="hi")
        assert failure(error) == AWAY, error
        assert error["message"].startswith("The task could not be started on agent 'bare': ")
    [latest, *_] = await lab.history("bare")
    assert (latest["status"], latest["started_at"]) == ("failed", None)


@requirement("F-start_task-4", "F-run-2")
async def test_of_many_that_start_a_task_at_once_one_does(lab: Lab) -> None:
    await lab.replica()
    _, name = await lab.with_agent()
    given: JsonObject = {"agent_name": name, "task_description": "work 30 s"}
    results = await asyncio.gather(*(lab.result("start_agent_task", **given) for _ in range(30)))
    started = [result for result in results if not result.is_error]
    assert len(started) == 1
    errors = [(result.meta or {})["pallas/error"] for result in results if result.is_error]
    assert {failure(error) for error in errors} == {CONFLICT}
    assert {error["details"]["task_id"] for error in errors} == {started[0].structured["task"]["id"]}
    assert lab.coder.agent(name).prompts == ["say hello", "work 30 s"]
    await lab.call("delete_agent", agent_name=name)
    assert (await lab.error("start_agent_task", **given))["error"] == "not_found"


async def test_what_another_replica_does_is_seen_at_once(lab: Lab) -> None:
    one, two = await lab.replica(), await lab.replica()
    name = await lab.create()
    await two.service.fleet.all()
    await lab.call("start_agent_task", agent_name=name, task_description="work 30 s")

    async def sees(status: str) -> bool:
        return {each.status for each in await two.service.fleet.all()} == {status}

    for replica in (one, two):
        assert (await replica.service.fleet.find(name, ALICE)).status == "busy"
    await lab.call("stop_agent_task", agent_name=name)
    await until(lambda: sees("idle"))
    await lab.call("delete_agent", agent_name=name)
    assert await two.service.fleet.all() == ()


@requirement("F-common-6")
async def test_the_source_of_a_task_is_who_called(lab: Lab) -> None:
    _, name = await lab.with_agent(fleet_ai_tokens="robot", fleet_extras="true")
    for principal, source in (
        (ALICE, "human"),
        (Principal(type="token", id="robot"), "ai_controller"),
    ):
        text = f"say {uuid.uuid4().hex}"
        await lab.call("start_agent_task", principal, agent_name=name, task_description=text)
        waited = await lab.call("wait_agent_task", agent_name=name)
        assert (waited["ended"], waited["task"]["status"], waited["task"]["source"]) == (True, "completed", source)
        assert waited["task"]["summary"] == text


ASKED = {"asks": "Which colour?", "ended": True}
BLUE = {"answer": {"action": "accept", "content": {"answer": "say blue"}}}


async def test_a_question_is_answered_once_and_only_while_the_agent_waits(lab: Lab) -> None:
    _, name = await lab.with_agent(fleet_extras="true")
    await lab.call("start_agent_task", agent_name=name, task_description="ask Which colour?")
    waited = await lab.call("wait_agent_task", agent_name=name)
    assert waited.items() >= ASKED.items()
    question = await ask(lab, name)
    params = question.input_requests["answer"]["params"]
    assert (params["mode"], params["message"]) == ("form", f"Agent '{name}' asks: Which colour?")
    assert question.request_state == waited["task"]["id"]
    declined = await lab.start("wait_agent_task", agent_name=name, asked=(question, {"answer": {"action": "decline"}}))
    assert (await result_of(declined)).structured.items() >= ASKED.items()
    refused = {"answer": {"action": "accept", "content": {"answer": "\x1b"}}}
    bad = await lab.start("wait_agent_task", agent_name=name, asked=(question, refused))
    assert failure(json.loads((await result_of(bad)).content[0]["text"])) == BAD

    both = [await lab.start("wait_agent_task", agent_name=name, asked=(question, BLUE)) for _ in range(2)]
    results = await asyncio.gather(*map(result_of, both))
    [answered] = [it.structured for it in results if not it.is_error]
    assert (answered["task"]["summary"], answered["task"]["source"]) == ("say blue", "human")
    [late] = [json.loads(it.content[0]["text"]) for it in results if it.is_error]
    assert failure(late) == CONFLICT
    await lab.call("wait_agent_task", agent_name=name)
    again = await lab.start("wait_agent_task", agent_name=name, asked=(question, BLUE))
    assert failure(json.loads((await result_of(again)).content[0]["text"])) == CONFLICT
    asked_before = await lab.start("wait_agent_task", agent_name=name, task_id=waited["task"]["id"], asks=True)
    assert (await result_of(asked_before)).structured.items() >= ASKED.items()
    assert lab.coder.agent(name).prompts[1:] == ["ask Which colour?", "say blue"]


async def ask(lab: Lab, name: str) -> InputRequired:
    """What a caller who can be asked gets."""
    followed = await lab.start("wait_agent_task", agent_name=name, asks=True)
    return await followed.until(InputRequired)


async def test_the_longest_description_is_typed_whole(lab: Lab) -> None:
    _, name = await lab.with_agent(fleet_extras="true")
    line = "append big.txt: " + "é0123456789 " * 80
    text = "\n".join([line] * (LONGEST_DESCRIPTION // len(line)))
    text += "\nsay " + "x" * (LONGEST_DESCRIPTION - len(text) - 5)
    assert len(text) == LONGEST_DESCRIPTION
    started = await lab.call("start_agent_task", agent_name=name, task_description=text)
    assert started["task"]["summary"].startswith("append big.txt: é0123456789")
    waited = await lab.call("wait_agent_task", agent_name=name)
    assert (waited["ended"], waited["task"]["status"]) == (True, "completed")
    assert lab.coder.agent(name).prompts[1:] == [text]
    too_long = await lab.error("start_agent_task", agent_name=name, task_description=text + "x")
    assert failure(too_long) == BAD
