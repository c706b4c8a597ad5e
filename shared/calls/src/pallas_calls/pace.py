"""A pace: how often something may be done in a second, over all tasks that do it."""

import asyncio
from dataclasses import dataclass


@dataclass
class Pace:
    """Lets `rate` steps a second pass, evenly. What was not used is not saved up."""

    rate: float
    _next: float = 0.0

    async def step(self) -> None:
        """Wait for the next step."""
        now = asyncio.get_running_loop().time()
        at = max(now, self._next)
        self._next = at + 1 / self.rate
        await asyncio.sleep(at - now)
