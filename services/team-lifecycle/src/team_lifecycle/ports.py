"""What changes want of the cache of look-ups: `pallas_lookups` has it."""

from collections.abc import Collection, Mapping
from typing import Protocol

from pallas_contracts.auth import LookupKey, Record
from pallas_lookups.cache import Condemned


class Cache(Protocol):
    """The look-ups that are kept for readers."""

    async def condemn(self, keys: Collection[LookupKey]) -> Condemned:
        """Send all readers of these look-ups to the truth, from now on.

        Raises:
            Unavailable: it cannot be done.
        """
        ...

    async def renew(self, condemned: Condemned, version: int, records: Mapping[LookupKey, Record | None]) -> None:
        """Put the new records in place.

        Raises:
            Unavailable: that is not certain.
        """
        ...
