"""Stored pipelines by their full names: read from a copy, changed by compare-and-set."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from pallas_bus.transport import kv
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.kv import Table
from pallas_contracts.catalog import PIPELINE_NAMES
from pallas_contracts.errors import Conflict, Unavailable
from pallas_contracts.message import utc_now
from pallas_contracts.pipelines import StoredPipeline
from pipelines.storing.images import check_size
from pipelines.storing.namespaces import MARK_SECONDS, SHARED, FullName, digest_of

_MOST_TRIES = 20

type Change = Callable[[StoredPipeline | None], StoredPipeline | None]
"""What becomes of an entry; None stands for none. It may refuse by raising."""


def expired(entry: StoredPipeline, now: datetime | None = None) -> bool:
    """Whether a temporary pipeline's time is over."""
    return entry.expires_at is not None and entry.expires_at <= (now or utc_now())


def image_owner(entry: StoredPipeline) -> str:
    """The owner of the programs of an entry, as a token."""
    return SHARED if entry.namespace == SHARED else entry.owner


@dataclass
class Entries:
    """All stored pipelines. `table` is a copy that may be a moment old, but has what this process has changed."""

    bus: Bus
    table: Table[StoredPipeline]
    _kept: dict[str, dict[str, StoredPipeline]] = field(default_factory=dict[str, dict[str, StoredPipeline]])
    _owners: dict[str, str] = field(default_factory=dict[str, str])
    _published: dict[str, StoredPipeline] = field(default_factory=dict[str, StoredPipeline])

    def __post_init__(self) -> None:
        self.table.on_change(self._changed)

    def _changed(self, key: str, entry: StoredPipeline | None) -> None:
        if (before := self._owners.pop(key, None)) is not None:
            del self._kept[before][key]
            if not self._kept[before]:
                del self._kept[before]
        self._published.pop(key, None)
        if entry is not None:
            self._owners[key] = owner = image_owner(entry)
            self._kept.setdefault(owner, {})[key] = entry
            if entry.published is not None:
                self._published[key] = entry

    def everything(self) -> list[StoredPipeline]:
        """All entries, by name."""
        return _listed(self.table.values())

    def of_owners(self, *owners: str) -> list[StoredPipeline]:
        """The entries whose programs these own, by name."""
        return _listed(entry for owner in owners for entry in self._kept.get(owner, {}).values())

    def published(self) -> list[StoredPipeline]:
        """The entries that are published, by name."""
        return _listed(self._published.values())

    async def get(self, name: FullName | str) -> StoredPipeline | None:
        """The entry of a full name as it is now.

        Raises:
            Unavailable: the broker does not answer.
        """
        found = await kv.get(self.bus, PIPELINE_NAMES, name=digest_of(str(name)))
        return found if found is not None and not expired(found) else None

    async def change(self, name: FullName | str, change: Change) -> StoredPipeline | None:
        """Change an entry; if another one changes it at the same time, `change` is called again.

        Raises:
            Rejected: it would be too large (`too_large`).
            Unavailable: the broker does not answer, or too many change it.
        """
        key = digest_of(str(name))
        for _ in range(_MOST_TRIES):
            stored, position = await kv.get_entry(self.bus, PIPELINE_NAMES, name=key)
            wanted = change(stored if stored is not None and not expired(stored) else None)
            if wanted == stored:
                return wanted
            if wanted is not None:
                check_size(self.bus, PIPELINE_NAMES, wanted)
            try:
                if wanted is None:
                    position = await kv.delete(self.bus, PIPELINE_NAMES, after=position, marked=MARK_SECONDS, name=key)
                else:
                    position = await kv.put(self.bus, PIPELINE_NAMES, wanted, after=position, name=key)
            except Conflict:
                continue
            self.table.changed(key, wanted, position)
            return wanted
        raise Unavailable("The pipeline is being changed by many at the same time.", code="busy")


def _listed(entries: Iterable[StoredPipeline]) -> list[StoredPipeline]:
    now = utc_now()
    return sorted((entry for entry in entries if not expired(entry, now)), key=lambda entry: entry.name)
