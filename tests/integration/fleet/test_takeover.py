"""What one replica has begun, another one ends: nothing is made or typed twice, and nothing is lost."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.integration.fleet.lab import Lab, result_of
from tests.integration.processes import a_service
from tests.integration.real_parts import until
from tests.requirements import requirement
from tests.waiting import soon

from fleet.app import FleetService
from fleet.coder.client import Coder
from fleet.running.typing import task_ref
from pallas_demo.coder import Fault
from pallas_turns.liveness import last_claims


class Stuck:
    """Does what a method of the client does, once, and then does not return."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
        self.done = asyncio.Event()
        original = getattr(Coder, method)

        async def stuck(coder: Coder, *given: Any, **named: Any) -> Any:
            answer = await original(coder, *given, **named)
            if not self.done.is_set():
                self.done.set()
                await asyncio.get_running_loop().create_future()
            return answer

        monkeypatch.setattr(Coder, method, stuck)


async def test_an_agent_whose_maker_was_lost_is_made_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await lab.replica()
    stuck = Stuck(monkeypatch, "create")
    followed = await lab.start("create_agent", name="papi", project="Setup", spec="say hello")
    await soon(stuck.done.wait())
    await lab.replica()
    await first.end()
    result = await result_of(followed)
    assert not result.is_error, result.content
    assert followed.attempts == [1, 2]
    await lab.status("papi", "idle")
    assert [(task["summary"], task["status"]) for task in await lab.history("papi")] == [("say hello", "completed")]
    assert (await lab.call("list_agents"))["total_count"] == 1
    again = await lab.error("create_agent", name="papi", project="Setup", spec="say hello")
    assert "already exists" in again["message"]


async def test_a_deletion_whose_maker_was_lost_ends_well(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    first = await lab.replica()
    name = await lab.create()
    stuck, handle = Stuck(monkeypatch, "start_build"), lab.coder.agent(name)
    followed = await lab.start("delete_agent", agent_name=name)
    await soon(stuck.done.wait())
    await lab.replica()
    await handle.until("deleted")
    await first.end()
    result = await result_of(followed)
    assert not result.is_error, result.content
    assert lab.known(name) is None


@requirement("F-run-1")
async def test_a_task_goes_on_in_another_replica_and_is_typed_once(lab: Lab) -> None:
    first = await lab.replica()
    name = await lab.create()
    started = await lab.call("start_agent_task", agent_name=name, task_description="work 1.5 s; say done")
    await lab.replica()
    await soon(first.service.drain())
    await first.end()
    await lab.idle(name)
    latest = (await lab.history(name))[0]
    assert (latest["id"], latest["status"]) == (started["task"]["id"], "completed")
    assert lab.coder.agent(name).prompts == ["say hello", "work 1.5 s; say done"]


@requirement("F-run-1")
async def test_a_task_of_a_replica_that_was_killed_is_watched_and_stopped_by_another(lab: Lab, tmp_path: Path) -> None:
    coder = {"coder_url": lab.coder.url, "coder_token": lab.coder.token}
    async with a_service("fleet", lab.nats_url, tmp_path, "fleet-killed", **coder) as killed:
        await killed.ready()
        await lab.call("create_agent", name="papi", project="Setup", spec="work 60 s")
        await lab.coder.agent("papi").until("running")
        other = await lab.replica()
        await until(lambda: claimed_by(other.service, "fleet-killed"))
        killed.send(signal.SIGKILL)
        await killed.process.wait()
        await until(lambda: claimed_by(other.service, other.process.instance), 10)
    stopped = await lab.call("stop_agent_task", agent_name="papi")
    assert (stopped["task"]["summary"], stopped["task"]["status"]) == ("work 60 s", "stopped")
    assert (lab.coder.agent("papi").status, lab.coder.agent("papi").prompts) == ("stable", ["work 60 s"])


async def claimed_by(service: FleetService, instance: str, name: str = "papi") -> bool:
    """Whether a replica has the task of an agent."""
    [entry] = [entry for entry in service.fleet.agents.all() if entry.name == name]
    claims = await last_claims(service.executor.bus, [task_ref(entry.task.turn_id)] if entry.task is not None else [])
    return [claim.worker for claim in claims.values()] == [instance]


async def test_a_prompt_whose_answer_was_lost_is_typed_once(lab: Lab) -> None:
    await lab.replica()
    name = await lab.create()
    await lab.coder.fault(Fault(mode="lose_answer", times=1))
    await lab.call("start_agent_task", agent_name=name, task_description="work 0.5 s")
    await lab.idle(name)
    assert lab.coder.agent(name).prompts == ["say hello", "work 0.5 s"]
    assert [task["status"] for task in await lab.history(name)] == ["completed", "completed"]
