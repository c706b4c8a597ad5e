"""Which port is whose, counted from one base, and whether it is free."""

import socket
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from pallas_cli.refused import Refused

LOOPBACK = "127.0.0.1"
_HIGHEST = 65535
_given = deque[int](maxlen=1000)
"""The ports that were given last. Processes that start at once bind theirs seconds later."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The fixed ports of a stack. Probe ports of services without a public port are ephemeral and not here."""

    base: int

    @property
    def registry(self) -> int:
        return self.base

    @property
    def gateway(self) -> int:
        """The first gateway's; the others take the next free ones."""
        return self.base + 20

    @property
    def nats(self) -> int:
        return self.base + 30

    @property
    def nats_monitor(self) -> int:
        return self.base + 31

    @property
    def redis(self) -> int:
        return self.base + 32

    @property
    def postgres(self) -> int:
        return self.base + 33

    @property
    def demo_tools(self) -> int:
        return self.base + 34

    @property
    def team_lifecycle(self) -> int:
        return self.base + 36

    @property
    def library_search(self) -> int:
        return self.base + 37

    def all(self) -> frozenset[int]:
        """Every fixed port, also those of processes that are not started."""
        return frozenset({self.registry, self.gateway, *range(self.nats, self.library_search + 1)})

    def gateways(self, count: int, taken: Collection[int] = ()) -> list[int]:
        """Return a port for each of `count` gateways: the first one's, then the next that are free.

        `taken` are ports that somebody will want later, such as agents' own.

        Raises:
            Refused: there are not so many.
        """
        found = [self.gateway]
        for candidate in range(self.gateway + 1, _HIGHEST + 1):
            if len(found) == count:
                break
            if candidate not in self.all() and candidate not in taken and is_free(candidate):
                found.append(candidate)
        if len(found) < count:
            raise Refused(f"there are no {count} free ports for gateways from {self.gateway} on (see --port-base)")
        return found


def is_free(port: int) -> bool:
    """Whether `port` of loopback can be bound now."""
    with socket.socket() as probe:
        # A port whose connections have just been closed counts as free: servers bind with this option too.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return an ephemeral port that is free now. Who else asks here gets another one, also before it is bound."""
    while True:
        with socket.socket() as probe:
            probe.bind((LOOPBACK, 0))
            port: int = probe.getsockname()[1]
        if port not in _given:
            _given.append(port)
            return port


def require_free(wanted: dict[str, int]) -> None:
    """Check the ports that the named processes need.

    Raises:
        Refused: at least one is in use; there is a line for each.
    """
    busy = [
        f"port {port} is in use; {name} needs it (see --port-base)"
        for name, port in wanted.items()
        if not is_free(port)
    ]
    if busy:
        raise Refused(*busy)
