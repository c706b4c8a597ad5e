"""The connection to the broker, which the service can do without."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pallas_bus.transport.connection import Bus
from pallas_contracts.errors import Unavailable


@dataclass
class Broker:
    """The connection, once there is one."""

    _bus: Bus | None = None

    @contextmanager
    def using(self, bus: Bus) -> Iterator[None]:
        """Use this connection inside the block."""
        self._bus = bus
        try:
            yield
        finally:
            self._bus = None

    @property
    def at_hand(self) -> bool:
        """Whether there is a connection now."""
        return self._bus is not None and self._bus.connected

    def need(self) -> Bus:
        """The connection.

        Raises:
            Unavailable: there is none now (`no_broker`).
        """
        if self._bus is None or not self._bus.connected:
            raise Unavailable("turns cannot be shown now: the broker cannot be reached", code="no_broker")
        return self._bus
