"""The list of turns as it changes, for those who look at it.

What happens within a tenth of a second is told at once, and each turn once. A reader that may have missed something is
told to load its list again. As long as nobody looks, the broker sends nothing.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from pallas_bus.connection import Bus
from pallas_bus.reads import Record
from pallas_contracts.errors import Unavailable
from pallas_turns.history.tail import watch_turns
from pallas_turns.history.turn_list import TurnFilter, complete
from pallas_turns.history.turns import TurnHistory, fold_into
from workspaces.answers import TurnLine
from workspaces.live.hub import Backlog
from workspaces.turns.broker import Broker
from workspaces.turns.views import line_of

log = logging.getLogger(__name__)

PAUSE = 0.1
"""Seconds between two flushes."""
MOST_AT_ONCE = 200
"""Turns that are told in one flush. Of more, readers load their list again."""
MOST_KNOWN = 5_000
"""Turns that have not ended and whose messages are remembered."""
RESYNC_PAUSE = 1.0


def _concerns(wanted: TurnFilter, turn: TurnHistory) -> bool:
    """Whether a list with this filter has the turn, or may have had it: it has left the state that is wanted."""
    if wanted.team not in (None, turn.team) or wanted.agent not in (None, turn.agent):
        return False
    if wanted.caller is not None and wanted.caller not in (turn.caller or ""):
        return False
    if turn.outcome is not None and not wanted.ended_so(turn):
        return False
    return wanted.state in (None, "waiting", "running", turn.state)


type Reader = Backlog[TurnLine | None]
"""What one reader has yet to be told; None: load the list again."""


async def _close(reader: Reader, stopping: asyncio.Event) -> None:
    await stopping.wait()
    reader.close()


@dataclass
class LiveTurns:
    """Follows turns while there are readers."""

    broker: Broker
    _readers: dict[Reader, TurnFilter] = field(default_factory=dict[Reader, TurnFilter])
    _known: dict[str, TurnHistory] = field(default_factory=dict[str, TurnHistory])
    _changed: dict[str, TurnHistory] = field(default_factory=dict[str, TurnHistory])
    _lost: bool = False
    _some: asyncio.Event = field(default_factory=asyncio.Event)
    _bus: Bus | None = None
    _watching: AsyncExitStack = field(default_factory=AsyncExitStack)
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def follow(self, wanted: TurnFilter, stopping: asyncio.Event) -> AsyncGenerator[Reader]:
        """Read what changes inside the block, until `stopping` or until the connection to the broker is closed.

        Raises:
            Unavailable: there is no broker (`no_broker`).
        """
        reader: Reader = Backlog(None)
        async with self._starting:
            await self._watch(self.broker.need())
            self._readers[reader] = wanted
        closing = asyncio.create_task(_close(reader, stopping))
        try:
            yield reader
        finally:
            closing.cancel()
            del self._readers[reader]
            async with self._starting:
                if not self._readers:
                    self._bus = None
                    await self._watching.aclose()

    async def _watch(self, bus: Bus) -> None:
        if bus is self._bus:
            return
        await self._watching.aclose()
        async with AsyncExitStack() as stack:
            stack.callback(self._forget)
            await stack.enter_async_context(watch_turns(bus, self._take, self._on_lost))
            stack.callback(bus.spawn(self._tell(bus), at_once=True).cancel)
            self._watching, self._bus = stack.pop_all(), bus

    def _forget(self) -> None:
        self._known.clear()
        self._changed.clear()

    def _take(self, record: Record) -> None:
        turn = fold_into(self._known, record)
        if turn is None:
            return
        if len(self._changed) < MOST_AT_ONCE or turn.turn_id in self._changed:
            self._changed[turn.turn_id] = turn
        else:
            self._lost = True
        if turn.outcome is not None:
            del self._known[turn.turn_id]
        elif len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._some.set()

    def _on_lost(self) -> None:
        self._lost = True
        self._forget()
        self._some.set()

    async def _tell(self, bus: Bus) -> None:
        try:
            while True:
                await self._some.wait()
                await asyncio.sleep(PAUSE)
                await self._flush(bus)
        finally:
            if self._bus is bus:
                self._bus = None
            for reader in self._readers:
                reader.close()

    async def _flush(self, bus: Bus) -> None:
        self._some.clear()
        lost, self._lost = self._lost, False
        changed, self._changed = self._changed, {}
        if lost or not await self._completed(bus, changed):
            for reader in self._readers:
                reader.resync()
            await asyncio.sleep(RESYNC_PAUSE)
            return
        lines = [(turn, line_of(turn)) for turn in changed.values()]
        for reader, wanted in self._readers.items():
            for turn, line in lines:
                if _concerns(wanted, turn):
                    reader.put(line)

    async def _completed(self, bus: Bus, turns: dict[str, TurnHistory]) -> bool:
        """Read what turns that began before the first reader lack. False: that is not possible."""
        try:
            await complete(bus, {name: turn for name, turn in turns.items() if turn.caller is None})
        except Unavailable as error:
            log.warning("turns cannot be completed", extra={"reason": error.message})
            return False
        return True
