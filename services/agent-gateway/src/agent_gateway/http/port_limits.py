"""Which dedicated ports a gateway tries to bind: definitions ask for any number of ports, and for ports of others."""

import resource
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from agent_gateway.settings import GatewaySettings

_FILES_PER_PORT = 4
"""Of so many files that the process may open, one may be a dedicated port."""


@dataclass(frozen=True, slots=True)
class PortLimits:
    """`most` ports in all, `most_per_team` of one team, and none that is `reserved`."""

    most: int
    most_per_team: int
    reserved: frozenset[int] = frozenset()

    def choose(self, wanted: Mapping[str, int], bound: Collection[str]) -> dict[str, int]:
        """The ports to bind of those wanted, by `{team}.{agent}`.

        A team keeps those that are `bound`. The first port of every team comes before the second of any.
        """
        teams: defaultdict[str, list[tuple[bool, str]]] = defaultdict(list)
        for key, port in wanted.items():
            if port not in self.reserved:
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
    return PortLimits(most, settings.max_agent_ports_per_team, frozenset(settings.reserved_ports))
