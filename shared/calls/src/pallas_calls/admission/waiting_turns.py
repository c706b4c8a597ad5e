"""Give up turns that wait for an agent which nobody can run, so that their callers get an answer.

When a call is admitted, its agent may have a worker, or get one soon. Later the agent may turn out to fail on every
worker, or stay without one. A turn that nobody has claimed is not executed then. One that was claimed waits as well
when its worker is lost, or has handed it back: what it did is not known.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Self

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.kv import Table
from pallas_bus.turnlog.claims import cancel_unclaimed, request_cancel
from pallas_bus.turnlog.ref import TurnRef
from pallas_bus.turnlog.withdraw import withdraw_turn
from pallas_calls.admission.admit_turn import failed_to_start
from pallas_calls.model import AGENT_RETRY_AFTER_MS, Refusal
from pallas_contracts.agents import WorkerPresence
from pallas_contracts.errors import PallasError
from pallas_contracts.turns import Claimed, TurnOutcome, TurnRequested

log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two looks. An agent has to fail at two of them: its next worker may be there in a moment."""


_UNKNOWN = "Whether the turn took effect is unknown; check before you retry."


@dataclass(slots=True, eq=False)
class WaitingTurn:
    """A turn that is followed here, inside the block; `given_up` says why it ended.

    `patience` is how many seconds it may wait without a worker; None: that is not known. It does not wait while the
    worker of its last claim is there.
    """

    turns: "WaitingTurns"
    request: TurnRequested
    position: int
    patience: float | None
    claim: Claimed | None = None
    given_up: Refusal | None = None
    looks: int = 0
    alone_since: float | None = None

    def __enter__(self) -> Self:
        self.turns.waiting[self] = None
        return self

    def __exit__(self, *_: object) -> None:
        del self.turns.waiting[self]


@dataclass
class WaitingTurns:
    """The turns that are followed here. `ended(outcome)` is called with the outcome of one that is given up."""

    bus: Bus
    presences: Table[WorkerPresence]
    ended: Callable[[TurnOutcome], None]
    waiting: dict[WaitingTurn, None] = field(default_factory=dict[WaitingTurn, None])

    async def keep(self) -> None:
        """Look for ever. What is known of workers while the broker is away does not count."""
        while True:
            await asyncio.sleep(EVERY)
            if self.bus.connected:
                await self.look()

    async def look(self) -> None:
        """Look once at all of them."""
        agents: dict[tuple[str, str], list[WaitingTurn]] = {}
        for turn in self.waiting:
            agents.setdefault((turn.request.team, turn.request.agent), []).append(turn)
        for (team, agent), turns in agents.items():
            hosted = any(f"{team}.{agent}" in worker.agents for worker in self.presences.values())
            await self._look_at(turns, hosted, failed_to_start(self.presences, team, agent))

    async def _look_at(self, turns: Iterable[WaitingTurn], hosted: bool, failed: Refusal | None) -> None:
        now = time.monotonic()
        for turn in turns:
            if hosted or (turn.claim is not None and turn.claim.worker in self.presences):
                turn.looks, turn.alone_since = 0, None
                continue
            turn.looks = turn.looks + 1 if failed is not None else 0
            turn.alone_since = now if turn.alone_since is None else turn.alone_since
            if failed is not None and turn.looks > 1:
                await self._give_up(turn, failed)
            elif turn.patience is not None and now - turn.alone_since > turn.patience:
                message = f"No worker of the agent was there for {turn.patience:g} s."
                await self._give_up(turn, Refusal("agent_failed", message, AGENT_RETRY_AFTER_MS))

    async def log_lost(self) -> None:
        """The log was lost, with what the turns had done that had begun: they end."""
        for turn in list(self.waiting):
            if turn.claim is not None:
                await self._give_up(turn, Refusal("worker_lost", ""), "The broker has lost the log of the turn.")

    async def queue_lost(self) -> None:
        """The queue was lost, with the turns that had not begun: they end."""
        why = Refusal("busy", "The broker has lost the turn before a worker had it. Try again.", AGENT_RETRY_AFTER_MS)
        for turn in list(self.waiting):
            if turn.claim is None:
                await self._give_up(turn, why)

    async def _give_up(self, turn: WaitingTurn, why: Refusal, lost: str = "The worker was lost.") -> None:
        ref, claim = TurnRef.of(turn.request), turn.claim
        try:
            if turn not in self.waiting:
                return
            if claim is None:
                cancelled = await cancel_unclaimed(self.bus, ref, why.message, turn.request)
            else:
                cancelled = await request_cancel(self.bus, ref, why.message, turn.request)
                why = Refusal("worker_lost", " ".join(filter(None, (lost, why.message, _UNKNOWN))))
            if cancelled:
                turn.given_up = replace(why, turn_id=ref.turn_id)
                log.warning("given up: nobody can execute the turn", extra=ref.facts)
                if claim is not None:  # whoever follows one that nobody had claimed withdraws it
                    await withdraw_turn(self.bus, turn.request, turn.position, self.ended, lost=claim.attempt)
        except PallasError as error:
            log.warning("a waiting turn cannot be given up yet", extra={**ref.facts, "reason": error.message})
