"""What a handshake-era session has set, shared by all gateways."""

from dataclasses import dataclass

from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.kv import Table
from pallas_contracts.catalog import SESSIONS, LegacySession


@dataclass
class Sessions:
    """The sessions of all gateways; `known` follows their bucket."""

    bus: Bus
    known: Table[LegacySession]

    async def set_log_level(self, session: str, level: str) -> None:
        """Keep the least level of log messages that a session wants.

        Raises:
            Unavailable: it cannot be kept now.
        """
        await kv.put(self.bus, SESSIONS, LegacySession(log_level=level), session=session)

    def log_level(self, session: str) -> str | None:
        """The level that the session has set."""
        known = self.known.get(session)
        return known.log_level if known else None
