"""Executes the turns of hosted agents in a bounded number of slots."""

import asyncio
import logging
from dataclasses import dataclass, field

from pallas_bus.turnlog.puller import TurnPuller
from pallas_bus.turnlog.queue import Delivery
from pallas_executor.slots import Slots
from pallas_executor.take_turn import CLEAN_UP, TakeTurn

log = logging.getLogger(__name__)

HEARTBEATS = "pulse"
"""What no worker can do `without`: gateways give the turns of one without a pulse to others."""


_NAK_SECONDS = 2.0
"""Seconds in which a turn is given back when this worker ends."""


@dataclass
class Executor:
    """A worker at work. Turns run as tasks of their own; `idle` is set while there is none."""

    slots: Slots
    taking: TakeTurn
    http: None = None
    puller: TurnPuller | None = None
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def take(self, key: str, delivery: Delivery) -> bool:
        """Start a delivered turn if there is a slot for it."""
        if not self.slots.take(key):
            return False
        self.idle.clear()
        task = asyncio.create_task(self._turn(key, delivery), name=f"{key} at {delivery.position}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _turn(self, key: str, delivery: Delivery) -> None:
        try:
            await self.taking.take_turn(key, delivery)
        finally:
            self.slots.give(key)
            if not self.slots.busy:
                self.idle.set()
            if self.puller is not None:
                await self.puller.refill()

    async def drain(self) -> None:
        """Pull nothing more and wait for the turns that run."""
        if self.puller is not None:
            await self.puller.stop()
        if self.slots.busy and not self.taking.bus.closed.is_set():
            await self.idle.wait()

    async def abandon(self) -> None:
        """Give back what still runs, so that another worker takes it at once; this one must not pull it again."""
        if self.puller is not None:
            await self.puller.stop()
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=CLEAN_UP + _NAK_SECONDS)
            for task in left:
                log.warning("a turn does not end and is left behind", extra={"turn": task.get_name()})
