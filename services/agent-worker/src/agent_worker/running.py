"""The attempts that run in this worker: who may stop them, and the heartbeat that keeps them ours."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from agent_worker.ports import Outcome
from pallas_bus.connection import Bus
from pallas_bus.turn_claims import Address, claim_state
from pallas_bus.turn_queue import ACK_WAIT, Delivery
from pallas_contracts.errors import PallasError
from pallas_contracts.turns import TurnClaim

BEAT = ACK_WAIT / 5
"""Seconds between two heartbeats of a delivery; the broker waits for several before it delivers the turn again."""


@dataclass(slots=True)
class RunningTurn:
    """An attempt that runs here. `stopped` means that it has lost the turn, to a newer attempt or to a cancel."""

    address: Address
    fence: int
    task: asyncio.Task[Outcome]
    stopped: bool = False

    def stop(self) -> None:
        """End the attempt."""
        self.stopped = True
        self.task.cancel()


@dataclass
class Running:
    """The attempts of this worker by turn, and all deliveries in its hands."""

    turns: dict[str, RunningTurn] = field(default_factory=dict[str, RunningTurn])
    deliveries: set[Delivery] = field(default_factory=set[Delivery])

    def heard(self, said: TurnClaim, seq: int) -> None:
        """Somebody claimed or cancelled a turn: if it runs here and this is news, stop it."""
        running = self.turns.get(said.turn_id)
        if running is not None and seq > running.fence:
            running.stop()

    async def reread(self, bus: Bus) -> None:
        """After a reconnect: hear what was claimed or cancelled meanwhile."""
        for running in list(self.turns.values()):
            while not running.task.done():
                try:
                    state = await claim_state(bus, running.address)
                except PallasError:
                    await asyncio.sleep(BEAT)
                    continue
                if state.seq > running.fence:
                    running.stop()
                break

    async def beat(self) -> None:
        """Tell the broker every few seconds, for ever, that what is in hand is still being worked on."""
        while True:
            await asyncio.sleep(BEAT)
            for delivery in list(self.deliveries):
                with suppress(PallasError):
                    await delivery.working()
