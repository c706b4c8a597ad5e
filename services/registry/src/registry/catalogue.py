"""The current listing, cached between changes of the tables.

After a change the next request compiles the listing again. Health checks that found nothing new invalidate it at most
once a second, because with many agents there is always one that has just been checked.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import httpx2
from pydantic_core import from_json

from pallas_contracts.agents import AgentDefinition, GatewayPresence, JsonObject
from pallas_contracts.health import AgentHealth
from registry.document import HEALTH, OFFICIAL, STALE, is_server_name
from registry.listing import Listed, Listing, compile_listing

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


STALE_AFTER_INTERVALS = 2


@dataclass
class Catalogue:
    """Receives changes of the tables and returns the listing. Keys are `{team}.{agent}`, or a gateway's name."""

    public_url: str
    cells: Sequence[Cell] = ()
    _agents: dict[str, AgentDefinition] = field(default_factory=dict[str, AgentDefinition])
    _health: dict[str, AgentHealth] = field(default_factory=dict[str, AgentHealth])
    _gateways: dict[str, GatewayPresence] = field(default_factory=dict[str, GatewayPresence])
    _stale: frozenset[str] = frozenset()
    _listing: Listing | None = None
    _rechecked: bool = False
    _shadowed: tuple[str, ...] = ()

    def agent_changed(self, key: str, definition: AgentDefinition | None) -> None:
        """An agent came, changed or went. One that nobody may use is not listed."""
        _put(self._agents, key, None if definition is not None and definition.hidden else definition)
        self._listing = None

    def health_changed(self, key: str, health: AgentHealth | None) -> None:
        """An agent was checked."""
        known = self._health.get(key)
        _put(self._health, key, health)
        if known and health and known.model_copy(update={"at": health.at}) == health and key not in self._stale:
            self._rechecked = True
            return
        self._stale -= {key}
        self._listing = None

    def gateway_changed(self, key: str, presence: GatewayPresence | None) -> None:
        """A gateway came, bound or released ports, or went."""
        known = self._gateways.get(key)
        _put(self._gateways, key, presence)
        if not known or not presence or (known.host, known.ports) != (presence.host, presence.ports):
            self._listing = None

    def cell_changed(self) -> None:
        """The registry of another cell lists something else, or nothing was heard of it for a while."""
        self._listing = None

    def tick(self, now: datetime) -> None:
        """Once a second: show new check times, and mark checks that are older than two intervals as stale."""
        stale = frozenset(key for key, health in self._health.items() if _is_stale(health, now))
        if stale != self._stale or self._rechecked:
            self._stale, self._rechecked, self._listing = stale, False, None

    def listing(self) -> Listing:
        """The listing as of now."""
        if self._listing is None:
            self._listing = compile_listing(
                self._agents,
                self._health,
                self._gateways,
                public_url=self.public_url,
                stale=self._stale,
                others=(entry for cell in self.cells for entry in cell.entries),
            )
            self._log_shadowed(self._listing.shadowed)
        return self._listing

    def _log_shadowed(self, shadowed: tuple[str, ...]) -> None:
        for key in set(shadowed) - set(self._shadowed):
            log.warning("server name used by another team; agent listed for its own team only", extra={"agent": key})
        self._shadowed = shadowed


def _is_stale(health: AgentHealth, now: datetime) -> bool:
    return now - health.at > timedelta(seconds=STALE_AFTER_INTERVALS * health.interval)


def _put[V](entries: dict[str, V], key: str, value: V | None) -> None:
    if value is None:
        entries.pop(key, None)
    else:
        entries[key] = value
