"""How fast a queue moves, and from that when a refused call is worth a retry."""

import time
from collections.abc import Callable
from dataclasses import dataclass

AT_LEAST_MS = 250
AT_MOST_MS = 30_000
NOT_KNOWN_MS = 1000
"""Milliseconds after which to retry: bounds of the estimate, and the value without one."""


@dataclass
class QueuePace:
    """Turns that leave a queue per second, between the last two readings that saw it move."""

    clock: Callable[[], float] = time.monotonic
    _delivered: int | None = None
    _at: float = 0.0
    _rate: float | None = None

    def read(self, delivered: int) -> None:
        """Record a reading: how many turns of the queue have been delivered so far."""
        now = self.clock()
        if self._delivered is None or delivered < self._delivered or now - self._at > AT_MOST_MS / 1000:
            self._delivered, self._at, self._rate = delivered, now, None
        elif delivered > self._delivered and now > self._at:
            self._rate = (delivered - self._delivered) / (now - self._at)
            self._delivered, self._at = delivered, now

    def retry_after_ms(self, turns: float) -> int:
        """Milliseconds until so many turns will have left. A stalled queue is expected to stall as long again."""
        if self._rate is None:
            return NOT_KNOWN_MS
        seconds = max(turns / self._rate, self.clock() - self._at)
        return round(min(max(seconds * 1000, AT_LEAST_MS), AT_MOST_MS))
