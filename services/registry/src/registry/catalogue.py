"""The current listing, cached between changes of the tables.

After a change the next request compiles the listing again. Health checks that found nothing new invalidate it at most
once a second, because with many agents there is always one that has just been checked.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import httpx2

from pallas_contracts.agents import AgentDefinition, GatewayPresence, JsonObject
from pallas_contracts.errors import Rejected
from pallas_contracts.health import AgentHealth
from pallas_jsonrpc.strict_json import loads, read_apart
from registry.document import FOREIGN, HEALTH, OFFICIAL, STALE, is_server_name
from registry.listing import Listed, Listing, compile_listing, dump

log = logging.getLogger(__name__)

OWN = "/own/.well-known/mcp/server.json"
"""The document of one cell, below the address of its registry."""

EVERY = 2.0
"""Seconds between two questions to a registry."""

STALE_SECONDS = 10.0
"""Seconds without an answer after which the agents of a cell count as degraded."""

SECONDS = 3.0
LARGEST = 8 * 1024 * 1024

_HEADERS = {"accept": "application/json", "accept-encoding": "identity", "user-agent": "pallas-registry"}
_MORE_IF_STALE = 64
"""Bytes by which an entry grows at most when it becomes degraded, with the comma behind it."""


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
            entries = self._entries
            if body != self._body:
                entries = await read_apart(partial(read_entries, cell=self.url), body)
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


async def _get(http: httpx2.AsyncClient, url: str) -> bytes:
    """The body of an answer.

    Raises:
        ValueError: it is no document.
    """
    async with http.stream("GET", url, headers=_HEADERS) as answer:
        if answer.status_code != 200:
            raise ValueError(f"status {answer.status_code}")
        if answer.headers.get("content-encoding", "identity").lower() != "identity":
            raise ValueError("its answer is compressed, which was not asked for")
        body = bytearray()
        async for part in answer.aiter_raw():
            body += part
            if len(body) > LARGEST:
                raise ValueError(f"its document is larger than {LARGEST // 1024 // 1024} MiB")
    return bytes(body)


def read_entries(body: bytes | str, cell: str) -> tuple[Listed, ...]:
    """The entries of a cell's document, each marked as foreign. One that cannot be used is left out.

    Raises:
        ValueError: it is not the document of a registry.
    """
    try:
        document: Any = loads(body)
        entries = [_read(entry, cell) for entry in document["servers"]]
    except Rejected as error:
        raise ValueError(f"its answer is not the document of a registry: {error.message}") from None
    except (KeyError, TypeError):
        raise ValueError("its answer is not the document of a registry") from None
    if left_out := entries.count(None):
        log.warning("entries of another cell are left out", extra={"entries": left_out})
    return tuple(entry for entry in entries if entry is not None)


def _read(entry: Any, cell: str) -> Listed | None:
    """One entry; None if it is not one."""
    try:
        server, meta = entry["server"], entry["_meta"]
        name, version, health = server["name"], server["version"], meta.get(HEALTH, {})
        updated = datetime.fromisoformat(meta[OFFICIAL]["updatedAt"])
        usable = is_server_name(name) and isinstance(version, str) and isinstance(health, dict)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    if not usable or updated.tzinfo is None:
        return None
    document: JsonObject = {**entry, "_meta": {**meta, FOREIGN: True}}
    return Listed("", name, version, updated, document, cell, len(dump(document)) + _MORE_IF_STALE)


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
    _taken: tuple[str, ...] = ()

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
            self._log_names(self._listing)
        return self._listing

    def notes(self) -> str | None:
        """Which registries do not answer or list more than there is room for, for `/readyz`; None if there are none."""
        left_out, said = self.listing().left_out, list[str]()
        for cell in self.cells:
            if cell.fault is not None:
                said.append(f"{cell.url}: {cell.fault}")
            if cell.url in left_out:
                said.append(f"{cell.url}: {left_out[cell.url]} agents are not listed, there are too many")
        return "; ".join(said) or None

    def _log_names(self, listing: Listing) -> None:
        for key in set(listing.shadowed) - set(self._shadowed):
            log.warning("server name used by another team; agent listed for its own team only", extra={"agent": key})
        if new := sorted(set(listing.taken) - set(self._taken)):
            facts = {"agents": len(new), "first": new[:10]}
            log.warning("agents of other cells not listed; agents of this cell have their names", extra=facts)
        self._shadowed, self._taken = listing.shadowed, listing.taken


def _is_stale(health: AgentHealth, now: datetime) -> bool:
    return now - health.at > timedelta(seconds=STALE_AFTER_INTERVALS * health.interval)


def _put[V](entries: dict[str, V], key: str, value: V | None) -> None:
    if value is None:
        entries.pop(key, None)
    else:
        entries[key] = value
