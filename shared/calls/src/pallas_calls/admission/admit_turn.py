"""Check that a turn can be executed, and its budgets and limits, before anything of it exists.

The limits are those of the store, of waiting turns, and of turns per second.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from pallas_bus.transport.kv import Table
from pallas_calls.admission.budgets import Budgets
from pallas_calls.admission.limits import StoreShares, TurnRates
from pallas_calls.admission.queue_positions import QueuePositions
from pallas_calls.model import AGENT_RETRY_AFTER_MS, Refusal
from pallas_contracts.agents import Limits, WorkerPresence
from pallas_contracts.costs import Allowance
from pallas_contracts.turns import TurnRequested

HELD_RETRY_AFTER_MS = 60_000
"""An operator decides how long it takes."""

_WHY = "Pallas takes no turns at the moment: its operators check what was under way before. Try again later."


@dataclass
class AdmitTurn:
    """The limits of all agents. An admitted turn must be `entering` before the next await, or it is not counted."""

    presences: Table[WorkerPresence]
    positions: QueuePositions
    rates: TurnRates
    budgets: Budgets
    store: StoreShares

    async def admit_turn(self, request: TurnRequested, limits: Limits) -> Refusal | Allowance | None:
        """Count the turn, or return why it is refused. A turn that the queue refuses does not count for the rates.

        Returns what an admitted turn may spend on models; None: as much as it likes.
        """
        team, agent, caller = request.team, request.agent, request.principal.token
        if (failed := failed_to_start(self.presences, team, agent)) is not None:
            return failed
        if (refused := held(self.presences.values(), team, agent)) is not None:
            return refused
        allowed = self.budgets.check(team, request.principal, limits.budget)
        if isinstance(allowed, Refusal):
            return allowed
        if (no_room := self.store.check(team)) is not None:
            return no_room
        if (full := await self.positions.full(team, agent, caller, limits.max_queued)) is not None:
            turns, each = ("of your turns", " per caller") if full.limit == "caller" else ("turns", "")
            message = f"Too many {turns} of this agent are waiting; the limit is {full.most}{each}. Try again shortly."
            return Refusal("busy", message, full.retry_after_ms, limit=full.limit)
        if (late := self.rates.take(team, agent, caller, limits)) is not None:
            each = " from each caller" if late.limit == "caller_rate" else ""
            message = f"This agent accepts at most {late.rate:g} turns per second{each}. Try again shortly."
            return Refusal("busy", message, math.ceil(late.seconds * 1000), limit=late.limit)
        return allowed


def failed_to_start(workers: Table[WorkerPresence], team: str, agent: str) -> Refusal | None:
    """The refusal of a call whose agent failed to start on every worker that hosts its team, else None."""
    key = f"{team}.{agent}"
    reason: str | None = None
    for worker in workers.values():
        if key in worker.agents:
            return None
        reason = reason or worker.failed.get(key)
    if reason is None:
        return None
    return Refusal("agent_failed", f"The agent could not be started: {reason}", AGENT_RETRY_AFTER_MS)


def held(workers: Iterable[WorkerPresence], team: str, agent: str) -> Refusal | None:
    """The refusal of a call whose agent is held on every worker that has it, else None."""
    key = f"{team}.{agent}"
    having = [worker.held for worker in workers if key in worker.agents]
    if not having or None in having:
        return None
    return Refusal("busy", _WHY, HELD_RETRY_AFTER_MS, limit="hold")
