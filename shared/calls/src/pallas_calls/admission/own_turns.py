"""What this gateway has in one agent's queue: turns that are being put in, and those that it follows, by caller."""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True)
class CallersTurns:
    """Turns of one caller; `followed` are the positions of those that wait and of those that run."""

    entering: int = 0
    waiting: list[int] = field(default_factory=list[int])
    followed: list[int] = field(default_factory=list[int])


@dataclass(slots=True)
class OwnTurns:
    """Positions are those of the messages in the queue's stream, in order; of a turn that waits it is its place."""

    waiting: list[int] = field(default_factory=list[int])
    callers: dict[str, CallersTurns] = field(default_factory=lambda: defaultdict[str, CallersTurns](CallersTurns))

    @property
    def entering(self) -> int:
        """Turns that are being put in."""
        return sum(each.entering for each in self.callers.values())

    def behind(self, position: int) -> int:
        """How many turns wait, or are being put in, when the one at `position` was the last to be delivered."""
        return self.entering + _behind(self.waiting, position)

    def of_caller(self, caller: str, position: int) -> int:
        """The same of one caller."""
        its = self.callers.get(caller)
        return its.entering + _behind(its.waiting, position) if its else 0

    def between(self, delivered: int, position: int) -> int:
        """How many wait in front of `position`."""
        return bisect_left(self.waiting, position) - bisect_right(self.waiting, delivered)

    def enter(self, caller: str, change: int) -> None:
        """One turn more (1) or less (-1) is being put in."""
        self.callers[caller].entering += change
        self._forget(caller)

    def follow(self, caller: str, position: int) -> None:
        """The turn is in the queue, and waits. Several may follow it; it waits only once."""
        its = self.callers[caller]
        insort(its.followed, position)
        for positions in (self.waiting, its.waiting):
            if not _holds(positions, position):
                insort(positions, position)

    def taken(self, caller: str, position: int) -> None:
        """It waits no more."""
        _remove(self.waiting, position)
        _remove(self.callers[caller].waiting, position)

    def unfollow(self, caller: str, position: int) -> None:
        """Nobody here wants to know of it any more."""
        _remove(self.callers[caller].followed, position)
        self._forget(caller)

    def _forget(self, caller: str) -> None:
        its = self.callers[caller]
        if not its.entering and not its.followed:
            del self.callers[caller]


def _behind(positions: list[int], position: int) -> int:
    return len(positions) - bisect_right(positions, position)


def _holds(positions: list[int], position: int) -> bool:
    at = bisect_left(positions, position)
    return at < len(positions) and positions[at] == position


def _remove(positions: list[int], position: int) -> None:
    if _holds(positions, position):
        del positions[bisect_left(positions, position)]
