"""The connection to the broker, which the service can do without."""

from collections.abc import Callable
from dataclasses import dataclass

from pallas_bus.transport.connection import Bus
from pallas_contracts.errors import Unavailable


@dataclass(frozen=True)
class Broker:
    """The connection: `bus()` is None as long as there was none."""

    bus: Callable[[], Bus | None]

    def need(self) -> Bus:
        """The connection.

        Raises:
            Unavailable: there is none now (`no_broker`).
        """
        bus = self.bus()
        if bus is None or not bus.connected:
            raise Unavailable("turns cannot be shown now: the broker cannot be reached", code="no_broker")
        return bus
