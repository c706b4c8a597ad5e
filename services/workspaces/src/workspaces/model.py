"""Words that all rooms share: who acts, and the states of teams, messages and health."""

from dataclasses import dataclass
from typing import Literal

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
