"""Words that all rooms share: who acts, and the states of teams, messages and health."""

from dataclasses import dataclass
from typing import Literal

from pallas_contracts.errors import NotFound

type TeamStatus = Literal["pending", "provisioned", "failed"]
type JwtState = Literal["none", "ready", "revealed"]
type Health = Literal["ok", "degraded", "error", "unknown"]
type MessageStatus = Literal["sending", "asking", "answered", "failed", "cancelled"]

NO_TEAMS = "No teams attached to this workspace. Go to workspace settings → Attached Teams."
"""What the agent picker says while it is empty (auth contract, section 10.2)."""


@dataclass(frozen=True, slots=True)
class Who:
    """The sender of a request. `account` is the name in events and log lines, `address` where it comes from."""

    account: str
    correlation: str
    address: str = ""


def no_instance(instance_id: str) -> NotFound:
    """There is no instance with this id."""
    return NotFound(f"there is no instance {instance_id!r}", code="no_instance")


def no_workspace(workspace_id: str) -> NotFound:
    """There is no workspace with this id."""
    return NotFound(f"there is no workspace {workspace_id!r}", code="no_workspace")
