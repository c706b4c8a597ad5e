"""How many agents one registrar and all may register, and how large: every service keeps the definitions of all.

What counts is what is stored, and what has just been stored here and is not in the copy of the bucket yet. Replicas
that store at the same moment may exceed a quota by what each of them stores.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from pallas_contracts.data_agents import DataAgent
from pallas_contracts.errors import Denied
from pallas_contracts.turns import Principal

_JUST_NOW = 10.0
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Share:
    """A number of agents, and the MiB of their registrations."""

    agents: int
    mib: float


@dataclass(slots=True)
class Quota:
    """What `each` registrar may register, and what all may `together`."""

    each: Share
    together: Share
    _sizes: dict[str, tuple[DataAgent, int]] = field(default_factory=dict[str, tuple[DataAgent, int]])
    _stored: dict[str, tuple[float, DataAgent]] = field(default_factory=dict[str, tuple[float, DataAgent]])

    def check(self, wanted: DataAgent, known: Iterable[DataAgent]) -> None:
        """Check that a registration may be stored beside those that are `known`.

        Raises:
            Denied: there are too many, or they are too large (`too_many_agents`).
        """
        now = time.monotonic()
        self._stored = {name: it for name, it in self._stored.items() if now - it[0] < _JUST_NOW}
        entries = {it.agent: it for it in known} | {name: it for name, (_, it) in self._stored.items()}
        entries[wanted.agent] = wanted
        self._sizes = {name: (it, self._size(it)) for name, it in entries.items()}
        owner = wanted.owner
        mine = [size for it, size in self._sizes.values() if is_same(it.owner, owner)]
        _check(self.each, mine, "You have")
        _check(self.together, [size for _, size in self._sizes.values()], "All registrars together have")

    def stored(self, entry: DataAgent) -> None:
        """The registration has been stored."""
        self._stored[entry.agent] = (time.monotonic(), entry)

    def removed(self, agent: str) -> None:
        """The registration has been removed."""
        self._stored.pop(agent, None)

    def _size(self, entry: DataAgent) -> int:
        known = self._sizes.get(entry.agent)
        return known[1] if known is not None and known[0] is entry else len(entry.model_dump_json())


def _check(share: Share, sizes: list[int], who: str) -> None:
    if len(sizes) > share.agents:
        raise Denied(f"{who} at most {share.agents} agents. Remove one first.", code="too_many_agents")
    if sum(sizes) > share.mib * _MIB:
        raise Denied(
            f"{who} agents with at most {share.mib:g} MiB of registrations. Remove one first, or register less text.",
            code="too_many_agents",
        )


def is_same(one: Principal, other: Principal) -> bool:
    """Whether two principals are one registrar."""
    return (one.type, one.id) == (other.type, other.id)
