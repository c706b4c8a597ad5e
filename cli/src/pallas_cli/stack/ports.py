"""The ports of a stack, counted from a base port."""

import socket
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pallas_cli.refused import Refused

LOOPBACK = "127.0.0.1"
DEFAULT_BASE = 23030
MONITORING = "nats-server's monitoring"

OFFSETS = {
    "registry": 0,
    "agent-gateway": 20,
    "nats-server": 30,
    MONITORING: 31,
    "redis-server": 32,
    "postgres": 33,
    "demo-tools": 34,
    "team-lifecycle": 36,
    "library-search": 37,
    "pipelines": 38,
    "data-pool": 39,
    "coder": 40,
    "fleet": 41,
    "workspaces": 42,
}
"""What is added to the base, by process. Further gateways use the next free ports. Others have no fixed port."""

_HIGHEST = 65535
_given = deque[int](maxlen=1000)
"""Recently returned ports. Their processes may bind them only seconds later."""


@dataclass(frozen=True, slots=True)
class Ports:
    """The fixed ports of a stack."""

    base: int

    def of(self, process: str) -> int:
        """The fixed port of a process, whether or not it is started."""
        return self.base + OFFSETS[process]

    @property
    def of_agents(self) -> int:
        """What is added to the dedicated ports of agents, so that they move with the base."""
        return self.base - DEFAULT_BASE

    def all(self) -> frozenset[int]:
        """Every fixed port, even if its process is not started."""
        return frozenset(map(self.of, OFFSETS))

    def gateways(self, count: int, taken: Collection[int] = ()) -> list[int]:
        """Return a port for each of `count` gateways: the fixed port, then the next free ports.

        `taken` are ports that are needed later, such as dedicated ports of agents.

        Raises:
            Refused: there are not enough free ports.
        """
        found = [first := self.of("agent-gateway")]
        for candidate in range(first + 1, _HIGHEST + 1):
            if len(found) == count:
                break
            if candidate not in self.all() and candidate not in taken and is_free(candidate):
                found.append(candidate)
        if len(found) < count:
            raise Refused(f"fewer than {count} ports from {first} up are free for gateways (see --port-base)")
        return found


def url_at(port: int) -> str:
    """The base address of an HTTP server on a port of this machine."""
    return f"http://{LOOPBACK}:{port}"


def demo_addresses(ports: Ports) -> dict[str, str]:
    """The variables from which the demo team's configuration reads its downstream servers, started or not."""
    return {
        "PALLAS_DEMO_TOOLS_URL": f"{url_at(ports.of('demo-tools'))}/mcp",
        "PALLAS_DEMO_LIBRARY_URL": f"{url_at(ports.of('library-search'))}/mcp",
    }


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


def require_free(wanted: Mapping[str, int]) -> None:
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
