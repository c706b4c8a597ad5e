"""The delay before a process that died is restarted."""

from dataclasses import dataclass

FIRST = 0.2
LONGEST = 5.0
STEADY = 5.0


@dataclass(slots=True)
class Backoff:
    """A delay that doubles from 0.2 s to 5 s. A process that was ready for 5 s is restarted at once."""

    _next: float = FIRST

    def after(self, uptime: float) -> float:
        """Return the delay in seconds after a process that was ready for `uptime` seconds."""
        if uptime >= STEADY:
            self._next = FIRST
            return 0.0
        delay = self._next
        self._next = min(delay * 2, LONGEST)
        return delay
