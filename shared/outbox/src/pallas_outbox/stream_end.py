"""Compares the stream of changes with what was sent: one that was lost with the broker's store has less.

Only the replica that relays does this, so one replica at a time declares the stream and compares it.
"""

import logging
from typing import Any

from pydantic import ValidationError

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import read_newest
from pallas_bus.transport.streams import declare
from pallas_contracts.changes import Changed
from pallas_contracts.errors import Unavailable
from pallas_outbox.outbox import Outbox

log = logging.getLogger(__name__)

DECLARE_SECONDS = 5.0


class StreamEnd[M: Changed[Any]]:
    """The end of the stream of an outbox, which is declared with so many `replicas`."""

    def __init__(self, bus: Bus, outbox: Outbox[M], replicas: int) -> None:
        self._bus = bus
        self._contract, self._stream = outbox.contract, outbox.stream
        self._replicas = replicas
        self._declared = False
        self._lost_behind: int | None = None

    async def last_stored(self, sent: int) -> int:
        """The number of the last change that the stream has. Changes after it are to be sent again.

        Raises:
            Unavailable: the broker does not answer, or cannot make the stream.
        """
        stored = await self._last()
        if stored is None or stored >= sent:
            self._lost_behind = None
            return sent
        # A stream that was purged drops recent changes as duplicates. They are not sent again for ever.
        if stored == self._lost_behind:
            return sent
        self._lost_behind = stored
        log.warning("the stream has lost changes; sending them again", extra={"stored": stored, "sent": sent})
        return stored

    async def _last(self) -> int | None:
        """The number of the last stored change, 0 without any, None if it cannot be decoded."""
        if not self._declared:
            await declare(self._bus, self._stream, replicas=self._replicas, timeout=DECLARE_SECONDS)
            self._declared = True
        try:
            last = await read_newest(self._bus, self._stream.name, self._contract.template.filter())
            return self._contract.message.model_validate_json(last.data).number if last is not None else 0
        except ValidationError:
            return None
        except Unavailable as error:
            # The next call declares it again.
            self._declared = self._declared and error.code != "no_stream"
            raise
