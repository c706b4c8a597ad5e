"""The option `cache`: answers that are used again, for one caller, one revision of an agent, and equal arguments.

With `cache_backend: "shared"` all replicas share them, for at most an hour. Otherwise a replica has its own.
"""

import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Any

from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus
from pallas_contracts.catalog import PIPELINE_CACHE
from pallas_contracts.errors import PallasError
from pallas_contracts.message import utc_now
from pallas_contracts.pipelines import CachedAnswer
from pallas_contracts.turns import Principal
from pipelines.running.answers import Answer

log = logging.getLogger(__name__)

_MOST_ENTRIES = 4096
_LARGEST = 65_536
"""Bytes of an answer that is kept in memory; the bucket keeps ten times as much."""


def cache_key(caller: Principal, basis: str, revision: str, arguments: Any) -> str:
    """A digest of who calls what: 64 hex digits."""
    parts = [caller.type, caller.id, basis, revision, arguments]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@dataclass
class Cache:
    """The answers of this replica, and the shared ones."""

    bus: Bus
    clock: Callable[[], float] = monotonic
    _known: OrderedDict[str, tuple[float, str]] = field(default_factory=OrderedDict[str, tuple[float, str]])

    async def get(self, key: str, backend: str | None) -> Answer | None:
        """The answer under a key, None if there is none."""
        kept = await self._shared(key) if backend == "shared" else self._own(key)
        return Answer(json.loads(kept)) if kept is not None else None

    def _own(self, key: str) -> str | None:
        until, answer = self._known.get(key, (0.0, ""))
        if until <= self.clock():
            self._known.pop(key, None)
            return None
        self._known.move_to_end(key)
        return answer

    async def put(self, key: str, backend: str | None, value: Answer, seconds: float) -> None:
        """Keep an answer for a time. One that is too large is not kept."""
        answer = json.dumps(value.value, separators=(",", ":"))
        if backend == "shared":
            if len(answer) <= 10 * _LARGEST:
                await self._share(key, answer, seconds)
        elif len(answer) <= _LARGEST:
            self._known[key] = (self.clock() + seconds, answer)
            self._known.move_to_end(key)
            if len(self._known) > _MOST_ENTRIES:
                self._known.popitem(last=False)

    async def _shared(self, key: str) -> str | None:
        try:
            found = await kv.get(self.bus, PIPELINE_CACHE, key=key)
        except PallasError as error:
            log.warning("the shared cache cannot be read", extra={"reason": error.message})
            return None
        return found.answer if found is not None and found.expires_at > utc_now() else None

    async def _share(self, key: str, answer: str, seconds: float) -> None:
        until = utc_now() + timedelta(seconds=seconds)
        try:
            await kv.put(self.bus, PIPELINE_CACHE, CachedAnswer(answer=answer, expires_at=until), key=key)
        except PallasError as error:
            log.warning("the shared cache cannot be written", extra={"reason": error.message})
