"""The cache of look-ups without its protection against stale grants: it shows what the protection is for."""

import time
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

from pallas_contracts.auth import LookupKey, Record
from pallas_lookups.cache import KEPT, PREFIX, TOMBSTONE, Invalidation, LookupCache, Snapshot


class UnprotectedCache(LookupCache):
    """A plain cache: a reader fills it in without a check, a writer deletes from it after the change."""

    async def fill(self, snapshot: Snapshot, version: int, records: Mapping[LookupKey, Record | None]) -> int:
        """Store the rows, whatever has happened since the read."""
        found = {key: record for key in snapshot.missing if (record := records.get(key)) is not None}
        for key, record in found.items():
            await self._ask(self.redis.set(_entry(key), f"{version}:{record.model_dump_json()}", ex=int(KEPT)))
        return len(found)

    async def invalidate(self, keys: Collection[LookupKey]) -> Invalidation:
        """Do nothing."""
        return Invalidation(tuple(keys), "", time.monotonic() + TOMBSTONE)

    async def refresh(
        self, invalidation: Invalidation, version: int, records: Mapping[LookupKey, Record | None]
    ) -> None:
        """Delete the entries."""
        if invalidation.keys:
            await self._ask(self.redis.delete(*map(_entry, invalidation.keys)))


@contextmanager
def unprotected() -> Generator[None]:
    """Replace every cache that is opened in the block."""
    with patch("pallas_lookups.cache.LookupCache", UnprotectedCache):
        yield


def _entry(key: LookupKey) -> str:
    return f"{PREFIX}:{key.text}"
