"""Whether turns are taken. After a restore they are not until an operator has decided about each turn of the backup.

The hold is an entry of the bucket `holds`, so it lasts over restarts. A process can also be held by its own setting.
Turns are taken only once the bucket was read: until then it may hold.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.kv import Table, watch
from pallas_contracts.backups import Hold
from pallas_contracts.catalog import HOLDS

_NOT_READ = "it is not known yet whether a restore holds turns"
BY_SETTING = "held by PALLAS_HOLD"


@dataclass
class Holding:
    """The holds as of now. Made by `watch_holds`. `on_change` is called when there may be another answer."""

    table: Table[Hold]
    by_setting: bool = False
    on_change: Callable[[], None] = field(default=lambda: None)

    @property
    def why(self) -> str | None:
        """Why no turn is taken, None if turns are."""
        if self.by_setting:
            return BY_SETTING
        if not self.table.synced.is_set():
            return _NOT_READ
        return next((reason_of(hold) for hold in self.table.values() if hold.active), None)


def reason_of(hold: Hold) -> str:
    """A hold as a sentence for operators."""
    if not hold.complete:
        return f"held: the restore of the backup {hold.backup} has not finished"
    return f"held after the restore of the backup {hold.backup}, until `pallas turns reconcile --release`"


@asynccontextmanager
async def watch_holds(bus: Bus, *, by_setting: bool) -> AsyncGenerator[Holding]:
    """Follow the holds inside the block, which begins once they are known."""
    async with watch(bus, HOLDS) as table:
        holding = Holding(table, by_setting)
        table.on_change(lambda _key, _value: holding.on_change())
        await table.synced.wait()
        yield holding
