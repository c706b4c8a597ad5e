"""How far the stream of changes is, by itself: one that was lost with the broker's store has less than was sent.

Only whoever relays asks, so the stream is declared, and compared with what was sent, by one replica at a time.
"""

import logging

from pydantic import ValidationError

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import read_newest
from pallas_bus.transport.streams import declare
from pallas_contracts.auth import LifecycleChanged
from pallas_contracts.catalog import CHANGES, LIFECYCLE_CHANGED
from pallas_contracts.errors import Unavailable

log = logging.getLogger(__name__)

DECLARE_SECONDS = 5.0


class StreamEnd:
    """Compares what was sent with what is stored. The stream is made with so many `replicas`."""

    def __init__(self, bus: Bus, replicas: int) -> None:
        self._bus = bus
        self._replicas = replicas
        self._declared = False
        self._lost_behind: int | None = None

    async def stored_of(self, sent: int) -> int:
        """The number up to which the stream has what was sent; what is behind it is to be sent again.

        Raises:
            Unavailable: the broker does not answer, or cannot make the stream.
        """
        stored = await self._last()
        if stored is None or stored >= sent:
            self._lost_behind = None
            return sent
        # One that was emptied by hand drops what it had a moment ago as duplicates. That is not tried for ever.
        if stored == self._lost_behind:
            return sent
        self._lost_behind = stored
        log.warning("the stream of changes has lost some, which are sent again", extra={"stored": stored, "sent": sent})
        return stored

    async def _last(self) -> int | None:
        """The number of the last change that is stored, 0 without any, None when it cannot be read."""
        if not self._declared:
            await declare(self._bus, CHANGES, replicas=self._replicas, timeout=DECLARE_SECONDS)
            self._declared = True
        try:
            last = await read_newest(self._bus, CHANGES.name, LIFECYCLE_CHANGED.template.filter())
            return LifecycleChanged.model_validate_json(last.data).number if last is not None else 0
        except ValidationError:
            return None
        except Unavailable as error:
            # Made anew at the next look.
            self._declared = self._declared and error.code != "no_stream"
            raise
