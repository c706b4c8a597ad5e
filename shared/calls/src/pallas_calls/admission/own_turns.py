"""The turns of this process in one agent's queue, by caller: those being submitted and those being followed."""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True)
class CallersTurns:
    """Turns of one caller; `followed` has the positions of the waiting and the running ones."""

    entering: int = 0
    waiting: list[int] = field(default_factory=list[int])
    followed: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class OwnTurns:
    """Positions are those of messages in the queue's stream, sorted."""

    waiting: list[int] = field(default_factory=list[int])
    callers: dict[str, CallersTurns] = field(default_factory=lambda: defaultdict[str, CallersTurns](CallersTurns))

    @property
    def entering(self) -> int:
        """How many turns are being submitted."""
        return sum(each.entering for each in self.callers.values())

    def behind(self, position: int) -> int:
        """How many turns wait or are being submitted, when the one at `position` was delivered last."""
        return self.entering + _count_behind(self.waiting, position)

    def of_caller(self, caller: str, position: int) -> int:
        """The same count for one caller."""
        turns = self.callers.get(caller)
        return turns.entering + _count_behind(turns.waiting, position) if turns else 0

    def between(self, delivered: int, position: int) -> int:
        """How many turns wait in front of `position`."""
        return bisect_left(self.waiting, position) - bisect_right(self.waiting, delivered)

    def enter(self, caller: str, change: int) -> None:
        """One turn more (1) or less (-1) is being submitted."""
        self.callers[caller].entering += change
        self._forget(caller)

    def follow(self, caller: str, position: int) -> None:
        """The turn waits in the queue. Several callers may follow it; it is counted as waiting once."""
        turns = self.callers[caller]
        insort(turns.followed, position)
        for positions in (self.waiting, turns.waiting):
            if not _contains(positions, position):
                insort(positions, position)

    def taken(self, caller: str, position: int) -> None:
        """The turn does not wait any more."""
        _remove(self.waiting, position)
        _remove(self.callers[caller].waiting, position)

    def unfollow(self, caller: str, position: int) -> None:
        """One caller less follows the turn."""
        _remove(self.callers[caller].followed, position)
        self._forget(caller)

    def _forget(self, caller: str) -> None:
        turns = self.callers[caller]
        if not turns.entering and not turns.followed:
            del self.callers[caller]


def _count_behind(positions: list[int], position: int) -> int:
    return len(positions) - bisect_right(positions, position)


def _contains(positions: list[int], position: int) -> bool:
    at = bisect_left(positions, position)
    return at < len(positions) and positions[at] == position


def _remove(positions: list[int], position: int) -> None:
    if _contains(positions, position):
        del positions[bisect_left(positions, position)]
