"""The attempts that run here and what stops them; the deliveries that progress acks keep here, and how each is settled.

The backoff of retries is here: a turn that cannot be executed now is delivered again after a pause (`NAK_DELAY`), which
grows with every delivery.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum

from opentelemetry import trace

from pallas_bus.connection import Bus
from pallas_contracts.catalog import TURN_QUEUE
from pallas_contracts.errors import PallasError
from pallas_contracts.turns import CancelRequested, TurnClaim
from pallas_turns.claims import TurnRef, last_position
from pallas_turns.journal import Boundary
from pallas_turns.queue import ACK_WAIT, Delivery
from pallas_turns.runtime import Outcome

log = logging.getLogger(__name__)

NAK_DELAY = 1.0
"""Seconds until a turn that cannot be executed now is delivered again, the first time.

A turn that another worker may still have is delivered at this interval until the presence of that worker expires.
"""

MAX_NAK_DELAY = 30.0
"""The longest such delay in seconds; it grows with every delivery."""

IN_PROGRESS_SECONDS = ACK_WAIT / 5
"""Seconds between two progress acks of a delivery; the broker delivers the turn again after `ACK_WAIT` without one."""


class End(Enum):
    """How a delivery ends."""

    CONCLUDED = "concluded"
    HANDED_BACK = "handed back"
    HELD = "held"
    LATER = "later"
    ELSEWHERE = "elsewhere"
    DEAD = "dead"


@dataclass(slots=True)
class RunningTurn:
    """An attempt that runs here. `stopped`: superseded by a newer attempt or a cancel; `handed_back`: at a boundary."""

    ref: TurnRef
    fence: int
    task: asyncio.Task[Outcome]
    boundary: Boundary = field(default_factory=Boundary)
    stopped: bool = False
    handed_back: bool = False

    def stop(self) -> None:
        """End the attempt."""
        self.stopped = True
        self.cancel()

    def hand_back(self) -> None:
        """End the attempt, so that another worker goes on from its journal."""
        self.handed_back = True
        self.cancel()

    def cancel(self) -> None:
        """Cancel what runs. Steps can tell this from a cancellation that the agent itself has caused."""
        self.boundary.ending = True
        self.task.cancel()


@dataclass
class Running:
    """The attempts of this worker by turn, and all its deliveries.

    `claiming` maps turns that are being claimed to the position of the last claim or cancel received. A later claim may
    arrive before this worker knows that its own is stored. `deliveries` maps those of this worker to the time at which
    they arrived, on the monotonic clock; `lost` are those of a queue that was lost. To settle one of these would settle
    another turn of the queue that was made again.
    """

    turns: dict[str, RunningTurn] = field(default_factory=dict[str, RunningTurn])
    claiming: dict[str, int] = field(default_factory=dict[str, int])
    deliveries: dict[Delivery, float] = field(default_factory=dict[Delivery, float])
    lost: set[Delivery] = field(default_factory=set[Delivery])
    draining: bool = False

    @contextmanager
    def taking(self, turn_id: str) -> Generator[None]:
        """Inside the block, receive claims of the turn, from before it is claimed here."""
        self.claiming[turn_id] = 0
        try:
            yield
        finally:
            self.claiming.pop(turn_id, None)
            self.turns.pop(turn_id, None)

    def has(self, turn_id: str) -> bool:
        """Whether this worker has the turn already."""
        return turn_id in self.claiming or turn_id in self.turns

    def begin(self, running: RunningTurn) -> None:
        """The claimed turn runs now; a later claim that was received meanwhile stops it."""
        turn_id = running.ref.turn_id
        self.turns[turn_id] = running
        if self.claiming.pop(turn_id, 0) > running.fence:
            running.stop()
        elif self.draining:
            running.boundary.stop(running.hand_back)

    def drain(self) -> None:
        """Give every turn back at its next boundary, also those that begin later."""
        self.draining = True
        for running in self.turns.values():
            running.boundary.stop(running.hand_back)

    def on_claim(self, claim: TurnClaim, seq: int) -> None:
        """Stop the turn of this claim or cancel if it runs here under an earlier claim.

        No claim follows a cancel, whatever its position: a log that was lost begins at 1 again.
        """
        if claim.turn_id in self.claiming:
            self.claiming[claim.turn_id] = max(seq, self.claiming[claim.turn_id])
        running = self.turns.get(claim.turn_id)
        if running is not None and (seq > running.fence or isinstance(claim.claim, CancelRequested)):
            running.stop()

    async def reread(self, bus: Bus) -> None:
        """Read what may have been missed: stop each attempt whose turn was claimed again or cancelled.

        Raises:
            Unavailable: the broker does not answer; the call may be repeated.
        """
        for running in list(self.turns.values()):
            if not running.task.done() and await last_position(bus, running.ref) > running.fence:
                running.stop()

    async def queue_lost(self, bus: Bus) -> None:
        """The queue was lost and made again. Deliveries that arrived after it was seen missing are of the new one."""
        missed = bus.missed[TURN_QUEUE.name]
        self.lost |= {delivery for delivery, arrived in self.deliveries.items() if arrived <= missed}

    async def settle(self, delivery: Delivery, taking: Awaitable[End]) -> None:
        """Wait for the end of a delivery, and settle it. Progress acks keep it here meanwhile."""
        self.deliveries[delivery] = time.monotonic()
        try:
            end = await taking
        except asyncio.CancelledError:
            if delivery not in self.lost:
                trace.get_current_span().set_attribute("pallas.settled", "nak")
                with suppress(PallasError):
                    await delivery.nak()
            raise
        except PallasError as error:
            log.warning("cannot execute the turn now", extra={"reason": error.message})
            end = End.LATER
        except Exception:
            log.exception("executing the turn failed", extra={"delivered": delivery.delivered})
            end = End.LATER
        finally:
            del self.deliveries[delivery]
            lost = delivery in self.lost
            self.lost.discard(delivery)
        if lost:
            return
        trace.get_current_span().set_attribute("pallas.settled", end.value)
        with suppress(PallasError):
            match end:
                case End.CONCLUDED:
                    await delivery.ack()
                case End.HANDED_BACK:
                    await delivery.nak()
                case End.HELD:
                    await delivery.nak(NAK_DELAY)
                case End.LATER:
                    await delivery.nak(min(NAK_DELAY * delivery.delivered, MAX_NAK_DELAY))
                case End.DEAD:
                    await delivery.reject()
                case End.ELSEWHERE:
                    pass

    async def send_in_progress(self) -> None:
        """Send a progress ack for every delivery every few seconds, for ever."""
        while True:
            await asyncio.sleep(IN_PROGRESS_SECONDS)
            for delivery in self.deliveries.keys() - self.lost:
                with suppress(PallasError):
                    await delivery.working()
