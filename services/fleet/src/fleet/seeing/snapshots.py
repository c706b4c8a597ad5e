"""All workspaces as Coder lists them, read once for all calls that come at about the same time."""

import asyncio
import time
from collections.abc import Callable

from fleet.coder.client import Coder
from fleet.coder.model import Workspace
from pallas_contracts.agents import Trouble
from pallas_contracts.errors import Unavailable

SECONDS = 2.0
"""How old a list may be."""


class Snapshots:
    """The latest list. `trouble` is what was wrong with Coder when it was last asked; `on_trouble` hears of changes."""

    def __init__(self, coder: Coder, on_trouble: Callable[[], None] = lambda: None) -> None:
        self.coder = coder
        self._on_trouble = on_trouble
        self._known: tuple[Workspace, ...] = ()
        self._began = self._forgotten = float("-inf")
        self._reading: asyncio.Task[tuple[Workspace, ...]] | None = None
        self._reading_since = self._began
        self.trouble: Trouble | None = None

    async def get(self, oldest: float = SECONDS) -> tuple[Workspace, ...]:
        """The workspaces as they were at most `oldest` seconds ago.

        Raises:
            Unavailable: Coder does not answer.
        """
        since = max(time.monotonic() - oldest, self._forgotten)
        if self._began >= since:
            return self._known
        if self._reading is None or self._reading_since < since:
            self._reading_since = time.monotonic()
            self._reading = asyncio.create_task(self._read(self._reading_since))
            self._reading.add_done_callback(_heard)
        return await asyncio.shield(self._reading)

    def forget(self) -> None:
        """The next list is to be read after this."""
        self._forgotten = time.monotonic()

    async def _read(self, began: float) -> tuple[Workspace, ...]:
        try:
            found = await self.coder.workspaces()
        except Unavailable as error:
            if self._reading_since == began:
                self._reading = None
            self._found(_trouble(error))
            raise
        if began > self._began:
            self._known, self._began = found, began
        if self._reading_since == began:
            self._reading = None
        self._found(None)
        return found

    def _found(self, trouble: Trouble | None) -> None:
        if trouble != self.trouble:
            self.trouble = trouble
            self._on_trouble()


def _trouble(error: Unavailable) -> Trouble:
    """An error if only an operator can mend it: callers do not call an agent that is in `error`."""
    refused = error.facts.get("status") in (401, 403) or error.facts.get("reason") in ("unauthorized", "not_configured")
    return Trouble(status="error" if refused else "degraded", reason=error.message)


def _heard(reading: asyncio.Task[tuple[Workspace, ...]]) -> None:
    if not reading.cancelled():
        reading.exception()  # all that waited for it may have left
