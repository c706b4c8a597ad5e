"""Coder as it was and as it is: how a specification gets to its agent, and what Coder refuses."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from tests.integration.fleet.lab import QUICK, Lab
from tests.integration.fleet.test_tools import failure
from tests.integration.real_parts import until

from fleet.coder.client import Coder
from fleet.coder.model import Template
from pallas_demo.coder import CoderStandIn, Fault, StandInSettings


@asynccontextmanager
async def a_coder(lab: Lab, **settings: Any) -> AsyncGenerator[Lab]:
    given: dict[str, Any] = {"build_seconds": 0.02, "terminal": QUICK} | settings
    async with CoderStandIn(StandInSettings(**given)) as coder:
        other = replace(lab, coder=coder, replicas=[])
        await other.replica()
        yield other


@pytest.mark.parametrize(
    ("release", "generation"),
    [(29, "both"), (29, "none"), (30, "v2"), (30, "experimental"), (37, "none")],
    ids=["parameter", "parameter without tasks", "task", "older task", "neither"],
)
async def test_the_agent_gets_its_specification_once_whatever_coder_has(
    lab: Lab, release: int, generation: str
) -> None:
    async with a_coder(lab, release=release, generation=generation) as now:
        for role, project in (("operator", "Setup"), ("operator", "DataOne")):  # a preset, and a parameter
            name = f"{project}-{role}"
            created = await now.call("create_agent", name=name, project=project, role=role, spec="say hello")
            await now.idle(name)
            assert now.coder.agent(name).prompts == ["say hello"]
            [task] = await now.history(name)
            assert (task["summary"], task["status"]) == ("say hello", "completed")
            shown = (await now.call("show_agent", agent_name=name))["agent"]
            assert (shown["spec"], shown["role"]) == (created["agent"]["spec"], role)


async def test_a_specification_that_coder_drops_is_an_error_and_leaves_no_workspace(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def claimed(_: Coder, template: Template) -> bool:
        return True

    monkeypatch.setattr(Coder, "takes_prompt", claimed)
    async with a_coder(lab, release=30, generation="none") as now:
        error = await now.error("create_agent", name="papi", project="Setup", spec="say hello")
        assert (failure(error), error["details"]["code"]) == (("bad_request", 400), "specification_dropped")
        assert await now.call("list_agents") == {"agents": [], "total_count": 0}


async def test_an_agent_can_be_deleted_while_it_starts_though_builds_may_not_be_cancelled(lab: Lab) -> None:
    async with a_coder(lab, build_seconds=1.5, cancels=False) as now:
        creating = await now.start("create_agent", name="papi", project="Setup", spec="say hello")

        async def starting() -> bool:
            return now.known("papi") is not None

        await until(starting)
        deleted = await now.call("delete_agent", agent_name="papi")
        assert deleted["message"] == "Agent 'papi' deleted successfully"
        await creating.outcome()
        assert await now.call("list_agents") == {"agents": [], "total_count": 0}


@pytest.mark.parametrize("path", ["/api/v2/workspaces$", "/message$", "/events$"])
async def test_a_coder_that_wants_no_more_requests_for_now_is_asked_when_it_says(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr("fleet.running.watching._GONE_SECONDS", 0.3)
    replica, name = await lab.with_agent()
    await lab.coder.fault(Fault(mode="too_many", path=path, times=3))
    replica.service.fleet.forget()
    await lab.call("start_agent_task", agent_name=name, task_description="say once")
    await lab.idle(name)
    assert lab.coder.agent(name).prompts == ["say hello", "say once"]


@pytest.mark.parametrize("lifecycle", ["start_error", "start_timeout"])
async def test_an_agent_whose_startup_script_failed_is_offline_and_says_why(lab: Lab, lifecycle: str) -> None:
    async with a_coder(lab, lifecycle=lifecycle) as now:
        await now.call("create_agent", name="papi", project="Setup", spec="say hello")

        async def failed() -> bool:
            return (await now.history("papi"))[0]["status"] == "failed"

        await until(failed)
        now.any.service.fleet.forget()
        error = await now.error("start_agent_task", agent_name="papi", task_description="x")
        assert failure(error) == ("bad_request", 400)
        assert "a startup script of its workspace has" in error["message"]
        assert lifecycle in error["message"]
