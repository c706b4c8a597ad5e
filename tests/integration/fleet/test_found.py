"""What people and agents do in Coder without the fleet: it is seen, has a place in the history, and can be stopped."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.integration.fleet.lab import QUICK, Lab
from tests.integration.real_parts import until
from tests.requirements import requirement

from pallas_demo.coder import CoderStandIn, Fault, StandInSettings


async def typed_by_a_person(lab: Lab, name: str, text: str) -> None:
    """Type a prompt as a person does in Coder."""
    terminal = lab.any.coder.terminal(await lab.workspace(name))
    assert terminal is not None
    await terminal.say(text)


@requirement("F-run-2", "F-run-3")
async def test_work_of_a_person_keeps_others_out_and_can_be_stopped(lab: Lab) -> None:
    _, name = await lab.with_agent()
    await typed_by_a_person(lab, name, "work 30 s")
    await lab.status(name, "busy")
    refused = await lab.error("start_agent_task", agent_name=name, task_description="x")
    assert refused["error"] == "conflict"
    assert "work 30 s" in refused["message"]
    stopped = await lab.call("stop_agent_task", agent_name=name)
    assert (stopped["task"]["summary"], stopped["task"]["source"]) == ("work 30 s", "human")
    assert [(task["summary"], task["status"]) for task in await lab.history(name)] == [
        ("work 30 s", "stopped"),
        ("say hello", "completed"),
    ]


async def test_work_that_nobody_asked_for_is_found_by_a_round(lab: Lab) -> None:
    replica, name = await lab.with_agent()
    await typed_by_a_person(lab, name, "work 1 s")
    replica.service.fleet.terminals.forget((await lab.workspace(name)).id)
    await replica.service.reconciling.round()

    async def recorded() -> bool:
        return [task["status"] for task in await lab.history(name)] == ["completed", "completed"]

    await until(recorded)
    assert (await lab.history(name))[0]["summary"] == "work 1 s"


async def test_a_workspace_that_was_made_in_coder_is_an_agent(lab: Lab) -> None:
    replica = await lab.replica(fleet_prefix="agent-")
    setup = next(each for each in await replica.coder.templates() if each.display_name == "Setup")
    parameters = {"AI Prompt": "say hello"}
    await replica.coder.create("agent-sony", setup, preset_id=None, parameters=parameters)
    await replica.coder.create("other", setup, preset_id=None, parameters=parameters)
    await lab.coder.agent("agent-sony").until("stable")
    await lab.idle("sony")
    assert [agent["name"] for agent in (await lab.call("list_agents"))["agents"]] == ["sony"]
    shown = (await lab.call("show_agent", agent_name="Sony"))["agent"]
    assert (shown["spec"], shown["project"], shown["role"]) == ("say hello", "Setup", "coder")
    assert await lab.history("sony") == []
    await lab.call("start_agent_task", agent_name="sony", task_description="say more")
    assert (await lab.call("create_agent", name="new-one", project="Setup", spec="x"))["agent"]["name"] == "new-one"
    assert lab.coder.agent("agent-new-one").workspace.name == "agent-new-one"


async def test_what_is_known_of_a_workspace_that_is_gone_goes(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    replica, name = await lab.with_agent()
    monkeypatch.setattr("fleet.running.reconciling._GONE_AFTER", timedelta())
    handle = lab.coder.agent(name)
    await replica.coder.start_build((await lab.workspace(name)).id, "delete")
    await handle.until("deleted")
    replica.service.fleet.forget()
    await replica.service.reconciling.round()
    assert lab.known(name) is None
    assert (await lab.error("show_agent", agent_name=name))["error"] == "not_found"


@requirement("F-delete_agent-1")
async def test_a_busy_agent_is_deleted_and_its_name_is_free_again(lab: Lab) -> None:
    _, name = await lab.with_agent()
    await lab.call("start_agent_task", agent_name=name, task_description="work 30 s")
    await lab.call("delete_agent", agent_name=name)
    assert lab.known(name) is None
    await lab.create(name)
    assert [task["summary"] for task in await lab.history(name)] == ["say hello"]


@requirement("F-delete_agent-3")
async def test_a_deletion_that_fails_leaves_an_agent_that_works(lab: Lab) -> None:
    _, name = await lab.with_agent()
    await lab.coder.fault(Fault(mode="bad_gateway", path="/builds$"))
    error = await lab.error("delete_agent", agent_name=name)
    assert (error["error"], error["details"]["status"]) == ("service_unavailable", 503)
    await lab.coder.heal()

    async def free() -> bool:
        entry = lab.known(name)
        return entry is not None and not entry.deleting

    await until(free)
    await lab.call("start_agent_task", agent_name=name, task_description="say more")
    both = await asyncio.gather(*(lab.result("delete_agent", agent_name=name) for _ in range(2)))
    assert not any(result.is_error for result in both), both


async def test_an_agent_is_deleted_while_its_workspace_starts(lab: Lab) -> None:
    async with CoderStandIn(StandInSettings(build_seconds=1.5, terminal=QUICK)) as slow:
        slowly = replace(lab, coder=slow, replicas=[])
        replica = await slowly.replica(fleet_create_wait="0")
        await slowly.call("create_agent", name="hasty", project="Setup", spec="x")
        shown = (await slowly.call("list_agents"))["agents"]
        assert shown == [{"name": "hasty", "status": "offline", "current_task": "x"}]
        refused = await slowly.error("start_agent_task", agent_name="hasty", task_description="y")
        assert "its workspace is starting" in refused["message"]
        await slowly.call("delete_agent", agent_name="hasty")
        assert (slowly.known("hasty"), await slowly.call("list_agents")) == (None, {"agents": [], "total_count": 0})
        await replica.end()
