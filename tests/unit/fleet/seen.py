"""Workspaces, entries and tasks as tests need them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from fleet.coder.model import App, AppStatus, Workspace, WorkspaceAgent
from pallas_contracts.fleet import FleetAgent, FleetTask, TaskStatus

AT = datetime(2025, 10, 29, 10, tzinfo=UTC)


def a_workspace(name: str = "papi", **fields: Any) -> Workspace:
    """A workspace that is running, with an agent that is ready."""
    known: dict[str, Any] = {
        "id": f"w-{name}",
        "name": name,
        "created_at": AT,
        "updated_at": AT,
        "transition": "start",
        "job_status": "succeeded",
        "template_display_name": "Setup",
        "has_ai_task": True,
        "agents": (an_agent(),),
    }
    return Workspace.model_validate(known | fields)


def an_agent(*reports: tuple[str, str], slug: str = "ccw", **fields: Any) -> WorkspaceAgent:
    """Coder's agent in a workspace; `reports` are states and messages of its app, the oldest first."""
    statuses = tuple(
        AppStatus(state=state, message=message, at=AT + timedelta(seconds=n))
        for n, (state, message) in enumerate(reports)
    )
    known: dict[str, Any] = {"id": "a", "name": "main", "status": "connected", "lifecycle": "ready"}
    return WorkspaceAgent.model_validate(known | {"apps": (App(slug=slug, statuses=statuses),)} | fields)


def a_task(status: TaskStatus = "running", **fields: Any) -> FleetTask:
    """A task of the agent."""
    known: dict[str, Any] = {
        "turn_id": "0" * 32,
        "number": 1,
        "agent": "papi",
        "summary": "Fix it",
        "status": status,
        "source": "human",
        "created_at": AT,
    }
    return FleetTask.model_validate(known | fields)


def an_entry(task: FleetTask | None = None, **fields: Any) -> FleetAgent:
    known: dict[str, Any] = {
        "name": "papi",
        "workspace_id": "w-papi",
        "role": "coder",
        "project": "Setup",
        "spec": "Do it",
        "created_at": AT,
        "task": task,
    }
    return FleetAgent.model_validate(known | fields)
