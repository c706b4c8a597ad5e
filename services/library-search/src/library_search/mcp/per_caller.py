"""Limits the calls of each caller that use the database at a time, so that no caller takes all connections."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from pallas_contracts.errors import Unavailable

WAIT_SECONDS = 5.0


class PerCaller:
    """Admits `at_once` calls of each caller. Further calls wait."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def slot(self, caller: str) -> AsyncGenerator[None]:
        """Wait for a slot of the caller and hold it in the block.

        Raises:
            Unavailable: none was free within `WAIT_SECONDS`.
        """
        slots = self._slots.get(caller)
        if slots is None:
            slots = self._slots[caller] = asyncio.Semaphore(self._at_once)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await slots.acquire()
        except TimeoutError as error:
            raise Unavailable("this caller has too many calls under way; try again", code="busy") from error
        try:
            yield
        finally:
            slots.release()
