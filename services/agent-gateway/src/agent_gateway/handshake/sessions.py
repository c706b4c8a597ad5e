"""Settings of handshake-era sessions, shared by all gateways."""

from dataclasses import dataclass

from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.kv import Table
from pallas_contracts.catalog import SESSIONS, LegacySession


@dataclass
class Sessions:
    """The sessions of all gateways; `known` mirrors their bucket."""

    bus: Bus
    known: Table[LegacySession]

    async def set_log_level(self, session: str, level: str) -> None:
        """Store the lowest level of log messages that a session wants.

        Raises:
            Unavailable: the broker did not answer.
        """
        await kv.put(self.bus, SESSIONS, LegacySession(log_level=level), session=session)

    def log_level(self, session: str) -> str | None:
        """The level that the session has set, or None."""
        known = self.known.get(session)
        return known.log_level if known else None
