"""The port to the cache of look-ups, which `pallas_lookups` implements."""

from collections.abc import Collection, Mapping
from typing import Protocol

from pallas_contracts.auth import LookupKey, Record
from pallas_lookups.cache import Invalidation


class Cache(Protocol):
    """The cache of look-ups, as writers use it."""

    async def invalidate(self, keys: Collection[LookupKey]) -> Invalidation:
        """Replace entries by tombstones, which send readers to the truth.

        Raises:
            Unavailable: the entries may still be there.
        """
        ...

    async def refresh(
        self, invalidation: Invalidation, version: int, records: Mapping[LookupKey, Record | None]
    ) -> None:
        """Replace tombstones by the new rows.

        Raises:
            Unavailable: readers may still get an older row.
        """
        ...
