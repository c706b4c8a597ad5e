"""Takes what happens to libraries into the tables, from where the tables are, for as long as the service lives."""

import logging
from dataclasses import dataclass

from pydantic import ValidationError

from library_search.adapters.libraries import Libraries
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.follow import follow
from pallas_bus.transport.reads import Record
from pallas_contracts.auth import LifecycleChanged
from pallas_contracts.catalog import CHANGES, LIFECYCLE_CHANGED

log = logging.getLogger(__name__)

NOT_READ = "changes of libraries have not been read yet"
NOT_READABLE = "changes of libraries cannot be read right now"
FILLED_AGAIN = "changes of libraries were lost, and have not all been sent again"


@dataclass
class FollowLibraries:
    """Follows the changes. `missing` says why not all that have happened may be known."""

    libraries: Libraries
    missing: str | None = NOT_READ
    _made: str = ""
    _awaited: int = 0
    """The number of a change that the stream must have, for it is in the tables."""

    async def run(self, bus: Bus) -> None:
        """Follow until this is cancelled."""
        await follow(bus, CHANGES, LIFECYCLE_CHANGED.template.filter(kind="library"), self)

    async def begin(self, made: str, last: int) -> int:
        """Go on where the tables are; in a stream that they know nothing of, at its beginning."""
        place, number = await self.libraries.begin(made, last)
        if place == 0 and number > 0:
            log.warning("changes of libraries are read from the beginning of their stream", extra={"number": number})
        self._made, self._awaited = made, 0 if place else number
        return place

    async def take(self, record: Record) -> None:
        """Take a change."""
        try:
            event = LifecycleChanged.model_validate_json(record.data)
        except ValidationError:
            # It stays in the stream; what follows must not wait for it.
            log.error("a change of a library cannot be read", extra={"place": record.seq})
            event = None
        if await self.libraries.take(event, self._made, record.seq) and event is not None:
            log.info("library_changed", extra={"library": event.id, "action": event.action, "number": event.number})
        if event is not None and event.number >= self._awaited:
            self._awaited = 0

    def caught_up(self) -> None:
        """All is known, unless the stream is a new one in which what is in the tables is still to come."""
        self.missing = FILLED_AGAIN if self._awaited else None

    def waits(self) -> None:
        """Something may be happening that is not heard of."""
        self.missing = self.missing or NOT_READABLE
