"""The attempts that run in this worker: who may stop them, and the heartbeat that keeps them ours."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.claims import claim_state
from pallas_bus.turnlog.queue import ACK_WAIT, Delivery
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.errors import PallasError
from pallas_contracts.turns import TurnClaim
from pallas_executor.agent_runtime import Outcome

BEAT = ACK_WAIT / 5
"""Seconds between two heartbeats of a delivery; the broker waits for several before it delivers the turn again."""


@dataclass(slots=True)
class RunningTurn:
    """An attempt that runs here. `stopped` means that it has lost the turn, to a newer attempt or to a cancel."""

    ref: TurnRef
    fence: int
    task: asyncio.Task[Outcome]
    stopped: bool = False

    def stop(self) -> None:
        """End the attempt."""
        self.stopped = True
        self.task.cancel()


@dataclass
class Running:
    """The attempts of this worker by turn, and all deliveries in its hands.

    `claiming` has the turns that are being taken, with the position of the last claim or cancel that was heard of each:
    that may be behind the claim of the attempt, and come before whoever made it knows that it is stored.
    """

    turns: dict[str, RunningTurn] = field(default_factory=dict[str, RunningTurn])
    claiming: dict[str, int] = field(default_factory=dict[str, int])
    deliveries: set[Delivery] = field(default_factory=set[Delivery])

    @contextmanager
    def taking(self, turn_id: str) -> Generator[None]:
        """Inside the block the turn is being taken: hear of it from before it is claimed."""
        self.claiming[turn_id] = 0
        try:
            yield
        finally:
            self.claiming.pop(turn_id, None)
            self.turns.pop(turn_id, None)

    def has(self, turn_id: str) -> bool:
        """Whether the turn is in this worker's hands already."""
        return turn_id in self.claiming or turn_id in self.turns

    def begin(self, running: RunningTurn) -> None:
        """The turn has been claimed and runs; what was heard of it meanwhile counts."""
        turn_id = running.ref.turn_id
        self.turns[turn_id] = running
        if self.claiming.pop(turn_id, 0) > running.fence:
            running.stop()

    def heard(self, said: TurnClaim, seq: int) -> None:
        """Somebody claimed or cancelled a turn: if it runs here and this is news, stop it."""
        if said.turn_id in self.claiming:
            self.claiming[said.turn_id] = max(seq, self.claiming[said.turn_id])
        running = self.turns.get(said.turn_id)
        if running is not None and seq > running.fence:
            running.stop()

    async def reread(self, bus: Bus) -> None:
        """Read what may have been missed: stop each attempt whose turn was claimed again or cancelled.

        Raises:
            Unavailable: the broker does not answer; the call may be repeated.
        """
        for running in list(self.turns.values()):
            if not running.task.done() and (await claim_state(bus, running.ref)).seq > running.fence:
                running.stop()

    async def beat(self) -> None:
        """Tell the broker every few seconds, for ever, that what is in hand is still being worked on."""
        while True:
            await asyncio.sleep(BEAT)
            for delivery in list(self.deliveries):
                with suppress(PallasError):
                    await delivery.working()
