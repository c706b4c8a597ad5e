"""What the agents' MCP servers use of the platform."""

from dataclasses import dataclass

from agent_gateway.handshake.sessions import Sessions
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.kv import Table
from pallas_calls.service import Calls
from pallas_contracts.health import AgentHealth
from pallas_contracts.keyed import LogKey


@dataclass(frozen=True)
class Platform:
    """Shared by the MCP servers of all agents. `key` signs event ids and makes turn ids of idempotency keys."""

    bus: Bus
    calls: Calls
    healths: Table[AgentHealth]
    sessions: Sessions
    key: LogKey
