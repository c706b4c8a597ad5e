"""The agents of other cells, as their registries list them.

Each registry is asked for what is of its own cell. So registries that name each other do not repeat what they have
heard: an agent that was removed would stay for ever. What a registry has said stays listed while it does not answer.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import httpx2
from pydantic_core import from_json

from pallas_contracts.agents import JsonObject
from registry.listing.compile_listing import Listed
from registry.listing.document import HEALTH, OFFICIAL, STALE, is_server_name

log = logging.getLogger(__name__)

OWN = "/own/.well-known/mcp/server.json"
"""The document of one cell, below the address of its registry."""

EVERY = 2.0
"""Seconds between two questions to a registry."""

STALE_SECONDS = 10.0
"""Seconds without an answer after which the agents of a cell count as degraded."""

SECONDS = 3.0
LARGEST = 8 * 1024 * 1024


@dataclass
class Cell:
    """Another cell, by the address of its registry. `fault` is why its registry has not answered, None if it has."""

    url: str
    fault: str | None = "not asked yet"
    _body: bytes = b""
    _entries: tuple[Listed, ...] = ()
    _answered: float = 0.0
    _stale: bool = False

    @property
    def entries(self) -> tuple[Listed, ...]:
        """What is listed of it."""
        return tuple(map(_degraded, self._entries)) if self._stale else self._entries

    async def ask(self, http: httpx2.AsyncClient) -> bool:
        """Ask its registry once. Returns whether its entries have changed."""
        before, body = (self._body, self._stale), self._body
        try:
            async with asyncio.timeout(SECONDS):
                body = await _get(http, f"{self.url}{OWN}")
            entries = self._entries if body == self._body else tuple(read_entries(body))
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            fault = str(error) if isinstance(error, ValueError) else "no answer"
            if self.fault != fault:
                log.warning("the registry of another cell does not answer", extra={"registry": self.url, "why": fault})
            self.fault, self._stale = fault, time.monotonic() - self._answered > STALE_SECONDS
        else:
            if self.fault is not None:
                log.info("the registry of another cell answers", extra={"registry": self.url, "agents": len(entries)})
            self._body, self._entries, self.fault, self._stale = body, entries, None, False
            self._answered = time.monotonic()
        return before != (self._body, self._stale)


async def ask_all(http: httpx2.AsyncClient, cells: Sequence[Cell]) -> bool:
    """Ask every registry once. Returns whether any entries have changed."""
    return any(await asyncio.gather(*(cell.ask(http) for cell in cells)))


async def keep_asking(http: httpx2.AsyncClient, cells: Sequence[Cell], changed: Callable[[], None]) -> None:
    """Ask for ever."""
    while True:
        await asyncio.sleep(EVERY)
        if await ask_all(http, cells):
            changed()


def faults_of(cells: Sequence[Cell]) -> str | None:
    """Which registries do not answer, for `/readyz`; None if all do."""
    return "; ".join(f"{cell.url}: {cell.fault}" for cell in cells if cell.fault is not None) or None


async def _get(http: httpx2.AsyncClient, url: str) -> bytes:
    """The body of an answer.

    Raises:
        ValueError: it is no document.
    """
    async with http.stream("GET", url, headers={"accept": "application/json"}) as answer:
        if answer.status_code != 200:
            raise ValueError(f"status {answer.status_code}")
        body = bytearray()
        async for part in answer.aiter_bytes():
            body += part
            if len(body) > LARGEST:
                raise ValueError(f"its document is larger than {LARGEST // 1024 // 1024} MiB")
    return bytes(body)


def read_entries(body: bytes) -> Iterator[Listed]:
    """The entries of a document. One that cannot be used is left out.

    Raises:
        ValueError: it is not the document of a registry.
    """
    try:
        document = from_json(body, allow_inf_nan=False)
        entries = [_read(entry) for entry in document["servers"]]
    except (ValueError, KeyError, TypeError):
        raise ValueError("its answer is not the document of a registry") from None
    if left_out := entries.count(None):
        log.warning("entries of another cell are left out", extra={"entries": left_out})
    return (entry for entry in entries if entry is not None)


def _read(entry: Any) -> Listed | None:
    """One entry; None if it is not one."""
    try:
        server, meta = entry["server"], entry["_meta"]
        name, version, health = server["name"], server["version"], meta.get(HEALTH, {})
        updated = datetime.fromisoformat(meta[OFFICIAL]["updatedAt"])
        usable = is_server_name(name) and isinstance(version, str) and isinstance(health, dict)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return Listed("", name, version, updated, entry) if usable and updated.tzinfo is not None else None


def _degraded(entry: Listed) -> Listed:
    """The entry of an agent of whose cell nothing has been heard for a while."""
    meta: JsonObject = entry.document["_meta"]
    health: JsonObject = meta.get(HEALTH, {})
    if health.get("status") != "ok":
        return entry
    return replace(entry, document={**entry.document, "_meta": {**meta, HEALTH: {**health, **STALE}}})
