"""The connection to the broker, which the service can do without."""

from collections.abc import Generator
from contextlib import contextmanager

from pallas_bus.connection import Bus
from pallas_contracts.errors import Unavailable


class Broker:
    """The connection, once there is one."""

    def __init__(self) -> None:
        self._bus: Bus | None = None

    @contextmanager
    def using(self, bus: Bus) -> Generator[None]:
        """Lend the connection to the block."""
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
