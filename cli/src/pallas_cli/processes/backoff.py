"""How long to wait before a process that died is started again."""

from dataclasses import dataclass

FIRST = 0.2
LONGEST = 5.0
STEADY = 30.0


@dataclass(slots=True)
class Backoff:
    """Doubles from 0.2 s to 5 s, and begins anew after a process that stayed up for 30 s."""

    _next: float = FIRST

    def after(self, uptime: float) -> float:
        """Return the seconds to wait after a process that lived `uptime` seconds."""
        if uptime >= STEADY:
            self._next = FIRST
        delay = self._next
        self._next = min(delay * 2, LONGEST)
        return delay
