"""Waiting in tests: always for something to happen, and never longer than a bound."""

import asyncio
from collections.abc import Awaitable, Callable

PATIENCE = 10.0
"""Seconds after which something that should happen soon counts as not happening."""

_LOOK_AGAIN = 0.005


async def soon[T](awaited: Awaitable[T], within: float = PATIENCE) -> T:
    """Return what is awaited, or fail with TimeoutError after `within` seconds."""
    async with asyncio.timeout(within):
        return await awaited


class Collected[T]:
    """A list that can be waited on: give `add` to whoever has something to tell."""

    def __init__(self) -> None:
        self.items: list[T] = []
        self._changed = asyncio.Event()

    def add(self, item: T) -> None:
        """Take one more item."""
        self.items.append(item)
        self._changed.set()

    async def until(self, enough: Callable[[list[T]], bool], within: float = PATIENCE) -> list[T]:
        """Wait until `enough(items)`; fail with what there is after `within` seconds."""
        try:
            async with asyncio.timeout(within):
                while not enough(self.items):
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"not enough after {within} s: {self.items!r}") from None
        return self.items

    async def count(self, number: int, within: float = PATIENCE) -> list[T]:
        """Wait until there are at least `number` items."""
        return await self.until(lambda items: len(items) >= number, within)


async def eventually(condition: Callable[[], bool], within: float = PATIENCE) -> None:
    """Look again and again until `condition` holds; for what tells nobody when it changes."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(_LOOK_AGAIN)
