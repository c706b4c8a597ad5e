"""The status of an agent (`fleet-mcp-tools.md`, "Status Enums"). Pure."""

from typing import Literal

from fleet.coder.model import Workspace
from fleet.seeing.terminals import Working
from fleet.storing.ending import FINAL
from pallas_contracts.fleet import FleetAgent, FleetTask

type AgentStatus = Literal["busy", "idle", "offline"]


def why_offline(workspace: Workspace) -> str | None:
    """Why an agent cannot work; None: it can."""
    if workspace.running:
        ended = "its coding agent has ended or does not answer; restart its workspace in Coder"
        return ended if workspace.ended else None
    job, under_way = workspace.job_status, workspace.job_status in ("pending", "running")
    match workspace.transition:
        case "start" if job == "failed":
            return f"its workspace could not be provisioned: {workspace.job_error or 'Coder does not say why'}"
        case "start" if job in ("canceled", "canceling"):
            return "the start of its workspace was cancelled"
        case "start" if under_way:
            return "its workspace is starting"
        case "start":
            return _not_ready(workspace)
        case "delete":
            return "its workspace is being deleted" if under_way else "the deletion of its workspace has failed"
        case _:
            return "its workspace is stopping" if under_way else "its workspace is stopped"


def _not_ready(workspace: Workspace) -> str:
    if not workspace.agents:
        return "its workspace has no agent of Coder"
    agent = workspace.agents[0]
    if agent.status != "connected":
        return f"the agent of its workspace is {agent.status}"
    return workspace.not_started or f"its workspace is not ready ({agent.lifecycle})"


def task_of(entry: FleetAgent | None) -> FleetTask | None:
    """The task that has not ended."""
    task = entry.task if entry is not None else None
    return task if task is not None and task.status not in FINAL else None


def has_to_be_asked(workspace: Workspace, entry: FleetAgent | None) -> bool:
    """Whether only its terminal can say what an agent does."""
    return workspace.running and task_of(entry) is None


def fold(workspace: Workspace, entry: FleetAgent | None, working: Working) -> tuple[AgentStatus, str | None]:
    """The status of an agent and what it works on. A terminal that does not answer leaves it to what Coder says."""
    task, reported = task_of(entry), workspace.reported
    ended = workspace.ended and working is None
    reports = reported is not None and reported.state == "working" and not ended
    busy = task is not None or working == "running" or (working is None and reports)
    off = not workspace.running or (ended and task is None)
    status = "offline" if off else "busy" if busy else "idle"
    if task is not None:
        return status, task.summary
    return status, (reported.message or None) if reported is not None and reports and status == "busy" else None
