"""Names, times and tasks as callers see them. The case of letters in names does not count."""

import re
import uuid
from datetime import UTC, datetime

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Rejected
from pallas_contracts.fleet import FleetTask

LONGEST_NAME = 20
_NAME = re.compile(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*")
_RESERVED = frozenset({"new", "create"})
_LONGEST_QUOTED = 60


def agent_name(workspace_name: str, prefix: str) -> str:
    """The agent's name of a workspace."""
    return workspace_name.removeprefix(prefix)


def cut(name: str) -> str:
    """A name as errors repeat it: a caller may have given one of any length."""
    return name if len(name) <= _LONGEST_QUOTED else f"{name[: _LONGEST_QUOTED - 1]}…"


def slug(text: str) -> str:
    """A text as a name: lower case, with hyphens for what is neither a letter nor a digit."""
    return re.sub(r"[\W_]+", "-", text.lower()).strip("-")


def check_name(name: str) -> str:
    """Return the name if an agent can have it.

    Raises:
        Rejected: it breaks a rule of the contract or of Coder.
    """
    if not name or len(name) > LONGEST_NAME:
        raise Rejected(f"name must have 1 to {LONGEST_NAME} characters.", field="name")
    if _NAME.fullmatch(name) is None:
        raise Rejected(
            "name must consist of letters, digits and hyphens, without a hyphen at an end or two in a row.",
            field="name",
        )
    if name.lower() in _RESERVED:
        raise Rejected(f"name {name!r} is reserved by Coder.", field="name")
    return name


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
