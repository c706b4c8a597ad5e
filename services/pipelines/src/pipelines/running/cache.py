"""The option `cache`: answers that are used again, for one caller, one revision of an agent, and equal arguments.

With `cache_backend: "shared"` all replicas share them, for at most an hour. Otherwise a replica has its own.
"""

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import Any

from cachetools import TLRUCache

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_contracts.catalog import PIPELINE_CACHE
from pallas_contracts.errors import PallasError
from pallas_contracts.message import utc_now
from pallas_contracts.pipelines import CachedAnswer
from pallas_contracts.turns import Principal
from pipelines.running.answers import Answer

log = logging.getLogger(__name__)

_MOST_BYTES = 64 * 2**20
_LARGEST = 65_536
"""Bytes of all answers that are kept in memory, and of one; the bucket keeps ones of ten times as much."""

_OVERHEAD = 512
"""Bytes of an entry besides its answer."""


def cache_key(caller: Principal, basis: str, revision: str, arguments: Any) -> str:
    """A digest of who calls what: 64 hex digits."""
    parts = [caller.type, caller.id, basis, revision, arguments]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Kept:
    answer: str
    seconds: float


def _until(_: str, kept: _Kept, now: float) -> float:
    return now + kept.seconds


def _size(kept: _Kept) -> int:
    return _OVERHEAD + len(kept.answer)


@dataclass
class Cache:
    """The answers of this replica, and the shared ones."""

    bus: Bus
    clock: Callable[[], float] = monotonic

    def __post_init__(self) -> None:
        self._own = TLRUCache[str, _Kept](_MOST_BYTES, _until, self.clock, _size)

    async def get(self, key: str, backend: str | None) -> Answer | None:
        """The answer under a key, None if there is none."""
        kept = await self._shared(key) if backend == "shared" else self._own.get(key)
        return Answer(json.loads(kept.answer)) if kept is not None else None

    async def put(self, key: str, backend: str | None, value: Answer, seconds: float) -> None:
        """Keep an answer for a time. One that is too large is not kept."""
        answer = json.dumps(value.value, separators=(",", ":"))
        if backend == "shared":
            if len(answer) <= 10 * _LARGEST:
                await self._share(key, answer, seconds)
        elif len(answer) <= _LARGEST:
            self._own[key] = _Kept(answer, seconds)

    async def _shared(self, key: str) -> CachedAnswer | None:
        try:
            found = await kv.get(self.bus, PIPELINE_CACHE, key=key)
        except PallasError as error:
            log.warning("the shared cache cannot be read", extra={"reason": error.message})
            return None
        return found if found is not None and found.expires_at > utc_now() else None

    async def _share(self, key: str, answer: str, seconds: float) -> None:
        until = utc_now() + timedelta(seconds=min(seconds, PIPELINE_CACHE.ttl or seconds))
        try:
            await kv.put(self.bus, PIPELINE_CACHE, CachedAnswer(answer=answer, expires_at=until), key=key)
        except PallasError as error:
            log.warning("the shared cache cannot be written", extra={"reason": error.message})
