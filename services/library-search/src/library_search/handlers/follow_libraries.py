"""Follows the stream of changes and applies the changes of libraries to the tables."""

import logging
from dataclasses import dataclass

from pydantic import ValidationError

from library_search.store.libraries import Libraries
from pallas_bus.connection import Bus
from pallas_bus.follow import follow
from pallas_bus.reads import Record
from pallas_contracts.auth import LifecycleChanged
from pallas_contracts.catalog import CHANGES, LIFECYCLE_CHANGED

log = logging.getLogger(__name__)

NOT_READ = "changes of libraries have not been read yet"
NOT_READABLE = "changes of libraries cannot be read right now"
FILLED_AGAIN = "the stream of changes was lost, and not all changes of libraries have been sent again"


@dataclass
class FollowLibraries:
    """Follows the changes. `missing` says why some may not be known; None if all are."""

    libraries: Libraries
    missing: str | None = NOT_READ
    _made: str = ""
    _awaited: int = 0
    """The number of the last change in the tables, until a new stream has reached it; else 0."""

    async def run(self, bus: Bus) -> None:
        """Follow until cancelled."""
        await follow(bus, CHANGES, LIFECYCLE_CHANGED.template.filter(kind="library"), self)

    async def begin(self, made: str, last: int) -> int:
        """The sequence number after which to follow: that of the tables, or 0 in a stream that is new to them."""
        seq, number = await self.libraries.begin(made, last)
        if seq == 0 and number > 0:
            log.warning("the stream of changes is a new one; reading it from the beginning", extra={"number": number})
        self._made, self._awaited = made, 0 if seq else number
        return seq

    async def take(self, record: Record) -> None:
        """Apply a change."""
        try:
            event = LifecycleChanged.model_validate_json(record.data)
        except ValidationError:
            # It stays in the stream. The changes after it must not wait.
            log.error("a change of a library cannot be decoded; skipped", extra={"seq": record.seq})
            event = None
        if await self.libraries.apply(event, self._made, record.seq) and event is not None:
            log.info("library_changed", extra={"library": event.id, "action": event.action, "number": event.number})
        if event is not None and event.number >= self._awaited:
            self._awaited = 0

    def caught_up(self) -> None:
        """All changes are known, unless a new stream does not yet have all that are in the tables."""
        self.missing = FILLED_AGAIN if self._awaited else None

    def waits(self) -> None:
        """There may be changes that cannot be read."""
        self.missing = self.missing or NOT_READABLE
