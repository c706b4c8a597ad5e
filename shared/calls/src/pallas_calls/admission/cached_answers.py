"""Answers of the broker that many callers need: cached for a moment, and requested once for all (single flight)."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

SHARED_FOR = 0.5
"""Seconds for which an answer is cached."""


@dataclass
class CachedAnswers[K, V]:
    """`ask(key)` must not fail; `spawn` runs it to its end even when those who wait for it are cancelled."""

    ask: Callable[[K], Awaitable[V]]
    spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    _known: dict[K, tuple[float, V]] = field(default_factory=dict[K, tuple[float, V]])
    _asking: dict[K, asyncio.Task[None]] = field(default_factory=dict[K, "asyncio.Task[None]"])

    async def get(self, key: K) -> V:
        """The cached answer, or a new one. Concurrent callers share one request."""
        known = self._known.get(key)
        if known is not None and time.monotonic() - known[0] < SHARED_FOR:
            return known[1]
        if (asking := self._asking.get(key)) is None:
            asking = self._asking[key] = self.spawn(self._ask(key))
        await asyncio.shield(asking)
        return self._known[key][1]

    async def _ask(self, key: K) -> None:
        try:
            answer = await self.ask(key)
            self._known[key] = (time.monotonic(), answer)
        finally:
            del self._asking[key]
