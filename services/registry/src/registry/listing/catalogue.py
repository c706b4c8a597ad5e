"""The current listing, cached between changes of the tables.

After a change the next request compiles the listing again. Health checks that found nothing new invalidate it at most
once a second, because with many agents there is always one that has just been checked.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pallas_contracts.agents import AgentDefinition, GatewayPresence
from pallas_contracts.health import AgentHealth
from registry.listing.cells import Cell
from registry.listing.compile_listing import Listing, compile_listing

log = logging.getLogger(__name__)

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
