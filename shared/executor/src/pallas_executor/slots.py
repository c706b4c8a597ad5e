"""The slots of one worker: how many turns of which agent may run.

One slot is reserved for agents with no running turn, so that a busy agent cannot starve the others. A worker with a
single agent reserves none.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Slots:
    """`total` slots for `agents()` agents. Nothing here waits."""

    total: int
    agents: Callable[[], int] = lambda: 1
    _running: Counter[str] = field(default_factory=Counter[str])

    @property
    def busy(self) -> int:
        """How many turns run."""
        return self._running.total()

    def room(self, agent: str) -> int:
        """How many more turns of `agent` may start now."""
        free = self.total - self.busy
        if self._running[agent] and self.total > 1 and self.agents() > 1:
            free -= 1
        return max(0, free)

    def take(self, agent: str) -> bool:
        """Take a slot for a turn of `agent`; False when there is none."""
        if not self.room(agent):
            return False
        self._running[agent] += 1
        return True

    def give(self, agent: str) -> None:
        """Free a slot."""
        self._running[agent] -= 1
        if self._running[agent] <= 0:
            del self._running[agent]
