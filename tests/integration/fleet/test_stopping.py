"""Stop means stop: the answer, the history and the terminal agree, whatever the agent does and whoever is lost."""

import asyncio
import json
import signal
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.integration.fleet.lab import QUICK, Lab, result_of
from tests.integration.fleet.test_takeover import claimed_by
from tests.integration.fleet.test_tools import failure
from tests.integration.processes import a_service
from tests.integration.real_parts import until
from tests.requirements import requirement
from tests.waiting import soon

from fleet.handlers.start_task import PATIENCE
from fleet.running.finding import with_task
from fleet.running.typing import task_ref
from fleet.terminal.agent_api import Terminal
from pallas_contracts.agents import JsonObject
from pallas_contracts.fleet import FleetAgent
from pallas_contracts.message import utc_now
from pallas_contracts.turns import CancelRequested
from pallas_demo.coder import CoderStandIn, Fault, StandInSettings
from pallas_turns.claims import claim_state, request_cancel, stored_outcome

AWAY = ("service_unavailable", 503)


async def started(lab: Lab, text: str) -> tuple[str, JsonObject]:
    """An agent with a task, and the task."""
    name = await lab.create()
    answer = await lab.call("start_agent_task", agent_name=name, task_description=text)
    return name, answer["task"]


async def latest(lab: Lab, name: str) -> JsonObject:
    """The latest task of an agent."""
    return (await lab.history(name))[0]


async def freed(lab: Lab, name: str) -> None:
    """Wait until an agent has no task."""

    async def look() -> bool:
        entry = lab.known(name)
        return entry is not None and entry.task is None

    await until(look)


async def outcome(lab: Lab, task: JsonObject) -> str:
    """How the turn of a task ended."""
    ref = task_ref(task["id"].replace("-", ""))

    async def look() -> bool:
        return await stored_outcome(lab.bus, ref) is not None

    await until(look)
    stored = await stored_outcome(lab.bus, ref)
    assert stored is not None
    return stored.status


@requirement("F-stop_task-1")
async def test_an_agent_that_ignores_the_first_escape_gets_a_second_one(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.running.stopping._SECONDS", 0.7)
    await lab.replica()
    name, task = await started(lab, "ignore ESC once; work 60 s")
    stopped = await lab.call("stop_agent_task", agent_name=name)
    assert (stopped["task"]["id"], stopped["task"]["status"]) == (task["id"], "stopped")
    assert (lab.coder.agent(name).status, lab.coder.agent(name).escapes) == ("stable", 2)
    assert (await latest(lab, name), await outcome(lab, task)) == (stopped["task"], "cancelled")


async def test_one_escape_stops_an_agent_that_agentapi_takes_for_running_two_seconds_longer(lab: Lab) -> None:
    """With the times of AgentAPI."""
    async with CoderStandIn(StandInSettings(build_seconds=0.02)) as real:
        really = replace(lab, coder=real, replicas=[])
        await really.replica()
        for text in ("work 60 s", "quiet 60 s"):
            name, _ = await started(really, text)
            stopped = await really.call("stop_agent_task", agent_name=name)
            assert (stopped["task"]["status"], stopped["message"]) == ("stopped", "Task stopped successfully")
            assert (real.agent(name).status, real.agent(name).escapes) == ("stable", 1)


async def test_an_agent_that_cannot_be_stopped_is_said_to_go_on(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.running.stopping._SECONDS", 0.2)
    await lab.replica()
    name, _ = await started(lab, "hang")
    stopped = await lab.call("stop_agent_task", agent_name=name)
    assert "may go on: it goes on after two interrupts" in stopped["message"]
    assert (await latest(lab, name))["status"] == "stopped"
    assert lab.coder.agent(name).status == "running"
    await lab.status(name, "busy")
    await lab.call("delete_agent", agent_name=name)


async def test_an_agent_that_dies_has_failed_and_there_is_nothing_to_stop(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.running.stopping._COMING_SECONDS", 0.3)
    await lab.replica()
    name, task = await started(lab, "work 0.2 s; crash")
    await lab.coder.agent(name).until("exited")
    stop = await lab.error("stop_agent_task", agent_name=name)
    assert failure(stop) == ("not_found", 404)
    assert ((await latest(lab, name))["status"], await outcome(lab, task)) in (
        ("failed", "completed"),
        ("failed", "cancelled"),
    )
    await lab.status(name, "offline")
    start = await lab.error("start_agent_task", agent_name=name, task_description="say hello")
    assert failure(start) == ("bad_request", 400)
    assert "its coding agent has ended" in start["message"]


async def test_an_agent_that_died_while_nobody_watched_is_not_busy_for_ever(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.running.watching._GONE_SECONDS", 0.5)
    first = await lab.replica()
    name, task = await started(lab, "work 0.3 s; crash")
    await first.end()
    await lab.coder.agent(name).until("exited")
    await lab.replica()
    await freed(lab, name)
    assert (await latest(lab, name))["status"] == "failed"
    assert await outcome(lab, task) == "completed"


async def test_a_stop_that_meets_the_end_of_a_task_says_what_the_history_says(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.running.stopping._COMING_SECONDS", 0.3)
    await lab.replica()
    name = await lab.create()
    for delay in (-0.4, 0.0, 0.02, 0.05):
        answer = await lab.call("start_agent_task", agent_name=name, task_description="work 0.1 s")
        handle = lab.coder.agent(name)
        await handle.until("stable")
        await asyncio.sleep(0.4 + delay)  # so long it has to be stable until it counts as done
        result = await lab.result("stop_agent_task", agent_name=name)
        await freed(lab, name)
        row = await latest(lab, name)
        assert row["id"] == answer["task"]["id"]
        assert (row["status"], result.is_error) == ("completed", True), result
        assert handle.escapes == 0


async def test_an_agent_that_only_pauses_is_stopped(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    await lab.replica()
    name = await lab.create()
    monkeypatch.setattr("fleet.running.watching.STABLE_SECONDS", 2.0)
    task = (await lab.call("start_agent_task", agent_name=name, task_description="quiet 1 s; work 60 s"))["task"]
    await lab.coder.agent(name).until("stable")
    stopped = await lab.call("stop_agent_task", agent_name=name)
    assert (stopped["task"]["id"], stopped["task"]["status"]) == (task["id"], "stopped")
    assert (lab.coder.agent(name).status, lab.coder.agent(name).escapes) == ("stable", 1)


async def test_a_task_whose_turn_is_cancelled_is_stopped(lab: Lab) -> None:
    """As by `pallas turns cancel`."""
    await lab.replica()
    name, task = await started(lab, "work 60 s")
    await request_cancel(lab.bus, task_ref(task["id"].replace("-", "")), "enough")
    await freed(lab, name)
    assert ((await latest(lab, name))["status"], await outcome(lab, task)) == ("stopped", "cancelled")
    assert (lab.coder.agent(name).status, lab.coder.agent(name).escapes) == ("stable", 1)


async def test_a_stop_while_coder_is_away_stops_as_soon_as_it_is_back(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.running.stopping.STOP_SECONDS", 0.4)
    replica = await lab.replica()
    name, task = await started(lab, "work 60 s")
    await replica.service.fleet.all()
    await lab.coder.stop_listening()
    stop = await lab.error("stop_agent_task", agent_name=name)
    assert failure(stop) == AWAY
    entry = lab.known(name)
    assert entry is not None
    assert entry.task is not None
    assert lab.coder.agent(name).status == "running"
    await lab.coder.listen()
    await freed(lab, name)
    assert ((await latest(lab, name))["status"], await outcome(lab, task)) == ("stopped", "cancelled")
    assert (lab.coder.agent(name).status, lab.coder.agent(name).escapes) == ("stable", 1)


async def test_a_start_that_is_stopped_or_deleted_before_it_is_typed_says_so(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.running.stopping._COMING_SECONDS", 0.1)
    await lab.replica()
    name = await lab.create()
    for tool, wanted in (("stop_agent_task", {409}), ("delete_agent", {404, 409})):  # 404: it is gone already
        await lab.coder.fault(Fault(mode="hang", path="/message$"))  # the prompt does not reach the terminal
        starting = asyncio.create_task(lab.error("start_agent_task", agent_name=name, task_description="work 60 s"))
        await until(lambda: pending(lab, name))
        await lab.call(tool, agent_name=name)
        await lab.coder.heal()
        assert (await starting)["details"]["status"] in wanted


async def test_a_start_that_is_stopped_while_its_prompt_is_typed_is_not_answered_as_running(lab: Lab) -> None:
    """The terminal took the prompt, and nobody had recorded it yet."""
    await lab.replica()
    name, before = await started(lab, "work 60 s")
    await lab.call("stop_agent_task", agent_name=name)
    heard = entry_of(lab, name).heard
    await lab.coder.fault(Fault(mode="lose_answer", delay=30.0, times=1))
    starting = asyncio.create_task(lab.error("start_agent_task", agent_name=name, task_description="work 60 s"))

    async def typed() -> bool:
        return lab.coder.agent(name).prompts[2:] == ["work 60 s"]

    await until(typed)
    stopped = await lab.call("stop_agent_task", agent_name=name)
    refused = await starting
    assert failure(refused) == ("conflict", 409)
    assert refused["message"].startswith("The task was stopped after its prompt was typed")
    assert refused["details"]["task_id"] == stopped["task"]["id"] != before["id"]
    assert await latest(lab, name) == stopped["task"]  # with the time at which it was typed
    said = await (await terminal_of(lab, name)).messages()
    prompts = [it.id for it in said if it.role == "user"]
    assert (heard, entry_of(lab, name).heard) == (prompts[-2], prompts[-1])  # work that is found later is another one


async def test_a_task_has_failed_if_its_agent_says_so(lab: Lab) -> None:
    await lab.replica()
    name, _ = await started(lab, "fail there are no tests; say this is not reached")
    await lab.idle(name)
    assert (await latest(lab, name))["status"] == "failed"


async def test_a_start_that_ends_without_an_answer_types_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its caller may start the task again, and it is typed once then."""
    monkeypatch.setattr("fleet.running.stopping._COMING_SECONDS", 0.1)
    await lab.replica()
    name = await lab.create()
    await lab.coder.fault(Fault(mode="hang", path="/messages$"))  # the task is claimed, and cannot be typed yet
    starting = await lab.start("start_agent_task", agent_name=name, task_description="say once")
    await until(lambda: pending(lab, name))
    await request_cancel(lab.bus, starting.ref, "the caller gives up")
    await freed(lab, name)
    assert (await starting.outcome()).status == "cancelled"
    await lab.coder.heal()
    await lab.call("start_agent_task", agent_name=name, task_description="say once")
    await lab.idle(name)
    assert lab.coder.agent(name).prompts == ["say hello", "say once"]
    assert [row["status"] for row in await lab.history(name)] == ["completed", "stopped", "completed"]


async def test_a_further_attempt_of_a_start_gives_its_task_no_more_time(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.running.stopping._COMING_SECONDS", 0.1)
    first = await lab.replica()
    name = await lab.create()
    await lab.coder.fault(Fault(mode="hang", path="/messages$"))
    starting = await lab.start("start_agent_task", agent_name=name, task_description="say late")
    await until(lambda: pending(lab, name))
    await first.end()
    monkeypatch.setattr("fleet.handlers.start_task.utc_now", lambda: utc_now() + timedelta(seconds=PATIENCE))
    await lab.replica()
    answer = await soon(result_of(starting))
    assert failure(json.loads(answer.content[0]["text"])) == AWAY
    await lab.coder.heal()
    await freed(lab, name)
    assert lab.coder.agent(name).prompts == ["say hello"]


def entry_of(lab: Lab, name: str) -> FleetAgent:
    """The entry of an agent."""
    entry = lab.known(name)
    assert entry is not None
    return entry


async def terminal_of(lab: Lab, name: str) -> Terminal:
    """The terminal of an agent."""
    terminal = lab.any.coder.terminal(await lab.workspace(name))
    assert terminal is not None
    return terminal


async def pending(lab: Lab, name: str) -> bool:
    """Whether an agent has a task that is not typed yet."""
    entry = lab.known(name)
    return entry is not None and entry.task is not None and entry.task.status == "pending"


async def test_an_agent_is_stopped_though_nobody_watches_it_yet(lab: Lab) -> None:
    """The process that found its work was lost before it submitted the turn."""
    replica = await lab.replica()
    name = await lab.create()
    await lab.coder.agent(name).terminal.send("work 60 s")
    await replica.service.fleet.agents.change(name, lambda it: it and with_task(it, "f" * 32, "x", "human"))
    stopped = await lab.call("stop_agent_task", agent_name=name)
    assert stopped["task"]["summary"] == "x"
    assert (lab.coder.agent(name).status, lab.coder.agent(name).escapes) == ("stable", 1)


@pytest.mark.parametrize("alone", [False, True])
async def test_a_stop_whose_replica_is_killed_is_carried_out(lab: Lab, tmp_path: Path, alone: bool) -> None:
    """The one that watches the task is killed, and `alone` it also executes the call."""
    settings, instance = {"coder_url": lab.coder.url, "coder_token": lab.coder.token}, f"fleet-{int(alone)}"
    async with a_service("fleet", lab.nats_url, tmp_path, instance, **settings) as killed:
        await killed.ready()
        name = instance
        await lab.call("create_agent", name=name, project="Setup", spec="work 60 s")
        await lab.coder.agent(name).until("running")
        other = await lab.replica()
        await until(lambda: claimed_by(other.service, instance, name))
        entry = lab.known(name)
        assert entry is not None
        assert entry.task is not None
        ref = task_ref(entry.task.turn_id)
        if alone:
            await other.service.drain()
        await lab.coder.fault(Fault(mode="hang", path="/message$"))  # the ESC does not reach the terminal
        await lab.start("stop_agent_task", agent_name=name)  # its gateway is lost as well: nobody waits

        async def cancelled() -> bool:
            return isinstance((await claim_state(lab.bus, ref)).claim, CancelRequested)

        await until(cancelled)
        killed.send(signal.SIGKILL)
        await killed.process.wait()
        await lab.coder.heal()
        if alone:
            await lab.replica()
        await freed(lab, name)
    row = await latest(lab, name)
    assert (row["status"], lab.coder.agent(name).status) == ("stopped", "stable")
    assert await outcome(lab, row) == "cancelled"


async def test_an_agent_whose_workspace_starts_is_stopped_as_soon_as_it_can_be(lab: Lab) -> None:
    async with CoderStandIn(StandInSettings(build_seconds=0.7, terminal=QUICK)) as slow:
        slowly = replace(lab, coder=slow, replicas=[])
        await slowly.replica(fleet_create_wait="0")
        await slowly.call("create_agent", name="hasty", project="Setup", spec="work 60 s")
        stopped = await slowly.call("stop_agent_task", agent_name="hasty")
        assert (stopped["task"]["summary"], stopped["task"]["status"]) == ("work 60 s", "stopped")
        assert (slow.agent("hasty").status, slow.agent("hasty").escapes) == ("stable", 1)
        await slowly.call("delete_agent", agent_name="hasty")
