"""The ports of a stack, counted from a base port."""

import socket
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from pallas_cli.refused import Refused

LOOPBACK = "127.0.0.1"
DEFAULT_BASE = 23030
_HIGHEST = 65535
_given = deque[int](maxlen=1000)
"""Recently returned ports. Their processes may bind them only seconds later."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The fixed ports of a stack. Probe ports of services without a public port are ephemeral and not included."""

    base: int

    @property
    def of_agents(self) -> int:
        """What is added to the dedicated ports of agents, so that they move with the base."""
        return self.base - DEFAULT_BASE

    @property
    def registry(self) -> int:
        return self.base

    @property
    def gateway(self) -> int:
        """The port of the first gateway; the others use the next free ports."""
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

    @property
    def pipelines(self) -> int:
        return self.base + 38

    @property
    def data_pool(self) -> int:
        return self.base + 39

    @property
    def coder(self) -> int:
        """The port of the stand-in for Coder."""
        return self.base + 40

    @property
    def fleet(self) -> int:
        return self.base + 41

    @property
    def workspaces(self) -> int:
        return self.base + 42

    def all(self) -> frozenset[int]:
        """Every fixed port, even if its process is not started."""
        return frozenset({self.registry, self.gateway, *range(self.nats, self.workspaces + 1)})

    def gateways(self, count: int, taken: Collection[int] = ()) -> list[int]:
        """Return a port for each of `count` gateways: the fixed port, then the next free ports.

        `taken` are ports that are needed later, such as dedicated ports of agents.

        Raises:
            Refused: there are not enough free ports.
        """
        found = [self.gateway]
        for candidate in range(self.gateway + 1, _HIGHEST + 1):
            if len(found) == count:
                break
            if candidate not in self.all() and candidate not in taken and is_free(candidate):
                found.append(candidate)
        if len(found) < count:
            raise Refused(f"fewer than {count} ports from {self.gateway} up are free for gateways (see --port-base)")
        return found


def is_free(port: int) -> bool:
    """Whether `port` on loopback can be bound now."""
    with socket.socket() as probe:
        # A port with connections in TIME_WAIT counts as free, because servers set this option, too.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return a free ephemeral port. Later calls return other ports, even before this one is bound."""
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
        Refused: at least one is in use; one line for each.
    """
    busy = [
        f"port {port} is in use; {name} needs it (see --port-base)"
        for name, port in wanted.items()
        if not is_free(port)
    ]
    if busy:
        raise Refused(*busy)
