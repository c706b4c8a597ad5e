"""Health, as the monitor publishes it (interface contract section 3): `get_health` and the registry show it."""

from datetime import datetime
from typing import Literal

from pallas_contracts.ids import Token
from pallas_contracts.message import Message

type HealthStatus = Literal["ok", "degraded", "error"]


class ProbeResult(Message):
    """One probe of one dependency (KV bucket `probes`, key `{key}`).

    `error` is a short reason that names no address and no credential; None: the dependency answered. `duration_ms`
    is the duration of the whole probe.
    """

    key: Token
    name: str
    kind: Literal["mcp", "model", "stdio"]
    error: str | None = None
    duration_ms: float = 0.0
    at: datetime


class AgentHealth(Message):
    """The folded health of one agent (KV bucket `health`, key `{team}.{agent}`).

    `message` is set if `status` is not ok. `interval` is the monitor's probe interval in seconds; health that is older
    than two intervals is stale.
    """

    team: Token
    agent: Token
    status: HealthStatus
    message: str | None = None
    workers: int = 0
    interval: float
    at: datetime


class HealthAsked(Message):
    """Ask the monitor to probe an agent's dependencies now; the answer is its `AgentHealth`."""

    team: Token
    agent: Token
