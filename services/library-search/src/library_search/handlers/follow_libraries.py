"""Takes what happens to libraries into the tables, from where the tables are, for as long as the service lives."""

import asyncio
import logging
from contextlib import aclosing
from dataclasses import dataclass

from pydantic import ValidationError

from library_search.adapters.libraries import Libraries
from pallas_bus.connection import Bus
from pallas_bus.direct import Record
from pallas_bus.stream_follow import follow
from pallas_contracts.auth import LifecycleChanged
from pallas_contracts.catalog import CHANGES, LIFECYCLE_CHANGED
from pallas_contracts.errors import Unavailable

log = logging.getLogger(__name__)

_RETRY = 0.5


@dataclass
class FollowLibraries:
    """Follows the changes. `missing` says until when not all are known that had happened before the start."""

    libraries: Libraries
    missing: str | None = "changes of libraries have not been read yet"

    async def run(self, bus: Bus) -> None:
        """Follow until this is cancelled."""
        while True:
            try:
                await self._follow(bus)
            except Unavailable as error:
                log.warning("changes of libraries wait", extra={"reason": error.message})
                await asyncio.sleep(_RETRY)

    async def _follow(self, bus: Bus) -> None:
        subject = LIFECYCLE_CHANGED.template.filter(kind="library")
        async with aclosing(follow(bus, CHANGES, subject, after=await self.libraries.place())) as records:
            async for record in records:
                if record is None:
                    self.missing = None
                else:
                    await self._take(record)

    async def _take(self, record: Record) -> None:
        try:
            event = LifecycleChanged.model_validate_json(record.data)
        except ValidationError:
            # It stays in the stream; what follows must not wait for it.
            log.error("a change of a library cannot be read", extra={"place": record.seq})
            event = None
        if await self.libraries.take(event, record.seq) and event is not None:
            log.info("library_changed", extra={"library": event.id, "action": event.action, "number": event.number})
