"""Times and tasks as callers see them (`fleet-mcp-tools.md`, "Common Patterns")."""

import uuid
from datetime import UTC, datetime

from pallas_contracts.agents import JsonObject
from pallas_contracts.fleet import FleetTask


def timestamp(at: datetime) -> str:
    """A time as `YYYY-MM-DDTHH:MM:SSZ`."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def task_id(turn_id: str) -> str:
    """The id of a task: that of its turn, as a UUID."""
    return str(uuid.UUID(turn_id))


def task_view(task: FleetTask) -> JsonObject:
    """A task as the history shows it."""
    return {
        "id": task_id(task.turn_id),
        "agent_name": task.agent,
        "summary": task.summary,
        "status": task.status,
        "source": task.source,
        "created_at": timestamp(task.created_at),
        "started_at": task.started_at and timestamp(task.started_at),
        "completed_at": task.completed_at and timestamp(task.completed_at),
    }
