"""The connections of a listener together: who gives way when there are too many, or when they hold too much."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

LARGEST_BODIES = 512 * 1024 * 1024
"""Bytes that a listener holds of bodies that are still arriving."""
SHARE = 4
"""A caller's address may have this part of the connections for bodies that are still arriving: a quarter."""
_BLOCKED_SECONDS = 2.0
"""A process that was blocked for longer reads what has arrived before it refuses anybody."""
_WEIGHT = 64 * 1024
"""Bytes that a connection counts for besides its body."""
_TOO_MANY = "too many bodies are still arriving; try again"
_TOO_SLOW = "the body arrives too slowly, or not at all"


class Sending(Protocol):
    """What a door asks of a connection: its caller's address, and how much has arrived of a body that it sends."""

    arrived: int

    @property
    def peer(self) -> str: ...

    def is_late(self, passed: float) -> bool:
        """Whether the body is too slow, after so many more seconds."""
        ...

    def is_stuck(self, passed: float) -> bool:
        """Whether the caller has read nothing of its answer for too long, after so many more seconds."""
        ...

    def refuse(self, status: int, reason: str) -> None:
        """Answer the request that is being read, and close the connection."""
        ...

    def end(self) -> None:
        """Close the connection."""
        ...

    def cut(self) -> None:
        """Close the connection, and throw away what was not read of the answer."""
        ...


@dataclass(eq=False)
class Door:
    """What the connections of a listener share: the limit `most`, those `waiting` for a request, longest first, those
    with a body that is still `arriving`, of which `held` bytes are here, and those with an answer that is `unread`.
    """

    most: int
    waiting: dict[Sending, None] = field(default_factory=dict[Sending, None])
    arriving: dict[Sending, None] = field(default_factory=dict[Sending, None])
    unread: dict[Sending, None] = field(default_factory=dict[Sending, None])
    held: int = 0
    _swept: float = 0.0

    @property
    def is_full(self) -> bool:
        """Whether too much is held."""
        return self.held > LARGEST_BODIES

    def make_room(self) -> None:
        """Close a connection: the one that is idle longest, or else some that send a body, or do not read an answer."""
        if len(self.waiting) > 1:
            next(iter(self.waiting)).end()
        elif self.arriving:
            self.shed()
        elif self.unread:
            next(iter(self.unread)).cut()
        else:
            next(iter(self.waiting)).end()

    def shed(self) -> None:
        """Refuse the older half of the bodies of the address that holds most."""
        held = Counter[str]()
        for each in self.arriving:
            held[each.peer] += _WEIGHT + each.arrived
        [(peer, _)] = held.most_common(1)
        theirs = [each for each in self.arriving if each.peer == peer]
        for each in theirs[: (len(theirs) + 1) // 2]:
            each.refuse(503, _TOO_MANY)

    def sweep(self, now: float) -> None:
        """Refuse bodies that arrive too slowly, and the youngest of an address that has more than its share.

        Whoever does not read is given up.
        """
        passed, self._swept = min(now - self._swept, _BLOCKED_SECONDS), now
        counted = Counter[str]()
        for each in list(self.arriving):
            counted[each.peer] += 1
            if each.is_late(passed):
                each.refuse(408, _TOO_SLOW)
            elif counted[each.peer] > max(1, self.most // SHARE):
                each.refuse(503, _TOO_MANY)
        for each in [each for each in self.unread if each.is_stuck(passed)]:
            each.cut()
