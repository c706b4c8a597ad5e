"""The status of agents, and how they are shown."""

from datetime import timedelta
from typing import Any

import pytest
from tests.requirements import requirement
from tests.unit.fleet.seen import AT, a_task, a_workspace, an_agent, an_entry

from fleet.coder.model import App, Workspace
from fleet.handlers.show import agent_view
from fleet.names import task_view, timestamp
from fleet.owners import Sources
from fleet.seeing.fleet import is_going
from fleet.seeing.status import AgentStatus, Working, fold, has_to_be_asked, why_offline
from pallas_contracts.fleet import FleetAgent, TaskStatus
from pallas_contracts.turns import ClientContext, Principal
from pallas_turns.runtime import Turn

WORKS = a_workspace(agents=(an_agent(("idle", "rests"), ("working", "Writing tests")),))
RESTS = a_workspace(agents=(an_agent(("working", "Writing tests"), ("idle", "rests")),))
STOPPED = a_workspace(transition="stop")
DIED = a_workspace(
    agents=(an_agent(apps=(App(slug="ccw", id="task-app", health="unhealthy"),)),), task_app_id="task-app"
)


@requirement("F-common-4")
@pytest.mark.parametrize(
    ("workspace", "entry", "working", "status", "current"),
    [
        (a_workspace(), None, "stable", "idle", None),
        (a_workspace(), None, "running", "busy", None),
        (a_workspace(), None, None, "idle", None),
        (WORKS, None, "running", "busy", "Writing tests"),
        (RESTS, None, "running", "busy", None),
        (WORKS, None, "stable", "idle", None),
        (WORKS, None, None, "busy", "Writing tests"),
        (RESTS, None, None, "idle", None),
        (RESTS, an_entry(a_task()), None, "busy", "Fix it"),
        (RESTS, an_entry(a_task("pending")), None, "busy", "Fix it"),
        (RESTS, an_entry(a_task("completed")), "stable", "idle", None),
        (WORKS, an_entry(), "stable", "idle", None),
        (STOPPED, an_entry(a_task()), None, "offline", "Fix it"),
        (STOPPED, None, None, "offline", None),
        (WORKS.model_copy(update={"transition": "stop"}), None, None, "offline", None),
        (DIED, None, None, "offline", None),
        (DIED, None, "stable", "idle", None),
        (DIED, an_entry(a_task()), None, "busy", "Fix it"),
        (DIED, an_entry(a_task("failed")), None, "offline", None),
    ],
)
def test_the_status_follows_from_task_terminal_and_report(
    workspace: Workspace, entry: FleetAgent | None, working: Working, status: AgentStatus, current: str | None
) -> None:
    assert fold(workspace, entry, working) == (status, current)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, None),
        ({"job_status": "running"}, "its workspace is starting"),
        ({"job_status": "pending"}, "its workspace is starting"),
        ({"job_status": "failed", "job_error": "no disk"}, "its workspace could not be provisioned: no disk"),
        ({"job_status": "canceled"}, "the start of its workspace was cancelled"),
        ({"transition": "stop"}, "its workspace is stopped"),
        ({"transition": "stop", "job_status": "running"}, "its workspace is stopping"),
        ({"transition": "delete", "job_status": "running"}, "its workspace is being deleted"),
        ({"transition": "delete", "job_status": "failed"}, "the deletion of its workspace has failed"),
        ({"agents": ()}, "its workspace has no agent of Coder"),
        ({"agents": (an_agent(status="timeout"),)}, "the agent of its workspace is timeout"),
        ({"agents": (an_agent(lifecycle="starting"),)}, "its workspace is not ready (starting)"),
        (
            {"agents": DIED.agents, "task_app_id": "task-app"},
            "its coding agent has ended or does not answer; restart its workspace in Coder",
        ),
    ],
)
def test_an_agent_is_offline_for_a_reason(fields: dict[str, Any], why: str | None) -> None:
    workspace = a_workspace(**fields)
    assert why_offline(workspace) == why
    assert (fold(workspace, None, None)[0] == "offline") is (why is not None)


def test_a_workspace_goes_until_its_deletion_fails() -> None:
    assert not is_going(a_workspace())
    assert is_going(a_workspace(transition="delete", job_status="running"))
    assert is_going(a_workspace(transition="delete"))
    assert not is_going(a_workspace(transition="delete", job_status="failed"))


@pytest.mark.parametrize(("status", "asked"), [("pending", False), ("running", False), ("failed", True)])
def test_a_terminal_is_asked_only_where_nothing_else_tells(status: TaskStatus, asked: bool) -> None:
    assert has_to_be_asked(a_workspace(), an_entry(a_task(status))) is asked
    assert not has_to_be_asked(STOPPED, None)


@requirement("F-common-3")
def test_times_are_seconds_in_utc() -> None:
    assert timestamp(AT + timedelta(microseconds=999_999)) == "2025-10-29T10:00:00Z"
    began = AT + timedelta(minutes=5)
    view = agent_view(an_entry(a_task(started_at=began)), a_workspace(), "busy", "Fix it", {"x": "y"})
    assert (view["created_at"], view["updated_at"]) == ("2025-10-29T10:00:00Z", "2025-10-29T10:05:00Z")
    assert view["metadata"] == {"fleet_mcp_agent_spec": "Do it", "x": "y"}


def test_a_task_has_the_id_of_its_turn_as_a_uuid() -> None:
    view = task_view(a_task("pending"))
    assert view["id"] == "00000000-0000-0000-0000-000000000000"
    assert (view["started_at"], view["completed_at"]) == (None, None)


@pytest.mark.parametrize(
    ("principal", "depth", "source"),
    [
        (Principal(type="user", id="u"), 0, "human"),
        (Principal(type="token", id="t"), 0, "human"),
        (Principal(type="token", id="robot"), 0, "ai_controller"),
        (Principal(type="user", id="u"), 1, "ai_controller"),
        (Principal(type="team", id="t"), 0, "ai_controller"),
        (Principal(type="turn", id="t"), 0, "ai_controller"),
        (Principal(), 0, "ai_controller"),
    ],
)
def test_the_source_of_a_task_is_who_calls(principal: Principal, depth: int, source: str) -> None:
    client = ClientContext(protocol_version="")
    turn = Turn("t", "fleet", "fleet", "start_agent_task", {}, 1, 1.0, client, principal=principal, depth=depth)
    assert Sources(frozenset({"robot"})).of(turn) == source
