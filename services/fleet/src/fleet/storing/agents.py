"""Entries of agents. All replicas have them in memory, and change them by compare-and-set."""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

from pallas_bus.connection import Bus
from pallas_bus.kv import Table, delete, get_entry, put
from pallas_contracts.catalog import FLEET_AGENTS
from pallas_contracts.errors import Conflict
from pallas_contracts.fleet import FleetAgent

type Decide = Callable[[FleetAgent | None], FleetAgent | None]
"""Gets an entry (None: there is none), and returns what it becomes; the same entry changes nothing."""


class Agents:
    """The entries by name in lower case."""

    def __init__(self, bus: Bus, table: Table[FleetAgent]) -> None:
        self._bus = bus
        self._table = table
        self._waiting = defaultdict[str, set[asyncio.Event]](set)
        table.on_change(self._changed)

    def of(self, name: str, workspace_id: str) -> FleetAgent | None:
        """The entry of an agent; None if there is none of this workspace."""
        entry = self._table.get(name.lower())
        return entry if entry is not None and entry.workspace_id == workspace_id else None

    def all(self) -> list[FleetAgent]:
        """All entries, also of workspaces that are gone."""
        return list(self._table.values())

    def with_task(self, turn_id: str) -> FleetAgent | None:
        """The entry whose task this turn is."""
        return next((it for it in self.all() if it.task is not None and it.task.turn_id == turn_id), None)

    async def read(self, name: str) -> FleetAgent | None:
        """The entry as the broker has it now; the copy in memory may be older.

        Raises:
            Unavailable: the broker does not answer.
        """
        return (await self._read(name.lower()))[0]

    async def _read(self, key: str) -> tuple[FleetAgent | None, int]:
        entry, position = await get_entry(self._bus, FLEET_AGENTS, agent=key)
        self._table.changed(key, entry, position)
        return entry, position

    async def change(self, name: str, decide: Decide) -> FleetAgent | None:
        """Change an entry by what `decide` makes of it; None removes it. Returns the entry as it is then.

        Raises:
            Unavailable: the broker does not answer.
        """
        key, fresh = name.lower(), False
        entry, position = self._table.entry(key)
        while True:
            wanted = decide(entry)
            if wanted == entry:
                if fresh:
                    return entry
                (entry, position), fresh = await self._read(key), True  # the copy in memory may be older
                continue
            try:
                if wanted is None:
                    stored = await delete(self._bus, FLEET_AGENTS, after=position, agent=key)
                else:
                    stored = await put(self._bus, FLEET_AGENTS, wanted, after=position, agent=key)
            except Conflict:
                (entry, position), fresh = await self._read(key), True
                continue
            self._table.changed(key, wanted, stored)
            return wanted

    async def until(self, name: str, enough: Callable[[FleetAgent | None], bool], seconds: float) -> bool:
        """Wait until the entry is as it should be. False: it is not, after `seconds`."""
        key, changed = name.lower(), asyncio.Event()
        self._waiting[key].add(changed)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while not enough(self._table.get(key)):
                        changed.clear()
                        await changed.wait()
            return enough(self._table.get(key))
        finally:
            self._waiting[key].discard(changed)
            if not self._waiting[key]:
                del self._waiting[key]

    def _changed(self, key: str, _: FleetAgent | None) -> None:
        for changed in self._waiting.get(key, ()):
            changed.set()
