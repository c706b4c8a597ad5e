"""Which dedicated ports a gateway tries to bind: definitions ask for any number of ports, and for ports of others."""

import resource
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from agent_gateway.settings import GatewaySettings

_FILES_PER_PORT = 4
"""Of so many files that the process may open, one may be a dedicated port."""

_PORTS = range(1024, 65536)


@dataclass(frozen=True, slots=True)
class PortLimits:
    """`most` ports in all, `most_per_team` of one team, and none that is `reserved`. `offset` is added to each."""

    most: int
    most_per_team: int
    reserved: frozenset[int] = frozenset()
    offset: int = 0

    def moved(self, port: int) -> int:
        """The port to bind instead of the one in a definition."""
        return port + self.offset

    def refusal(self, port: int) -> str | None:
        """Why a port is never bound; None if it may be."""
        if port in self.reserved:
            return "reserved for another service"
        return None if port in _PORTS else "no port from 1024 to 65535, with the offset of this gateway"

    def choose(self, wanted: Mapping[str, int], bound: Collection[str]) -> dict[str, int]:
        """The ports to bind of those wanted, by `{team}.{agent}`.

        A team keeps those that are `bound`. The first port of every team comes before the second of any.
        """
        teams: defaultdict[str, list[tuple[bool, str]]] = defaultdict(list)
        for key, port in wanted.items():
            if self.refusal(port) is None:
                teams[key.partition(".")[0]].append((key not in bound, key))
        ranked = [
            (rank, *waiting)
            for keys in teams.values()
            for rank, waiting in enumerate(sorted(keys)[: self.most_per_team])
        ]
        return {key: wanted[key] for _, _, key in sorted(ranked)[: self.most]}


def limits_of(settings: GatewaySettings) -> PortLimits:
    """The limits of the settings and of this process."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = settings.max_agent_ports
    if files != resource.RLIM_INFINITY:
        most = min(most, max(1, files // _FILES_PER_PORT))
    reserved = frozenset(settings.reserved_ports)
    return PortLimits(most, settings.max_agent_ports_per_team, reserved, settings.agent_port_offset)
