"""Slows down a server that sends more than anybody can use, so that it cannot keep this process busy."""

import time


class Pace:
    """An allowance of `burst`, which grows by `rate` a second. `take` returns how many seconds to wait."""

    def __init__(self, burst: float, rate: float) -> None:
        self._left = self._burst = burst
        self._rate = rate
        self._at = time.monotonic()

    def take(self, amount: float) -> float:
        """Take from the allowance; what is missing must be waited for."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate) - amount
        self._at = now
        return max(0.0, -self._left / self._rate)
