"""Check budgets and limits (of the store, of waiting turns, of turns per second) before anything of a turn exists."""

import math
from dataclasses import dataclass

from pallas_calls.admission.budgets import Budgets
from pallas_calls.admission.queue_positions import QueuePositions
from pallas_calls.admission.store_shares import StoreShares
from pallas_calls.admission.turn_rates import TurnRates
from pallas_calls.model import Refusal
from pallas_contracts.agents import Limits
from pallas_contracts.costs import Allowance
from pallas_contracts.turns import TurnRequested


@dataclass
class AdmitTurn:
    """The limits of all agents. An admitted turn must be `entering` before the next await, or it is not counted."""

    positions: QueuePositions
    rates: TurnRates
    budgets: Budgets
    store: StoreShares

    async def admit_turn(self, request: TurnRequested, limits: Limits) -> Refusal | Allowance | None:
        """Count the turn, or return why it is refused. A turn that the queue refuses does not count for the rates.

        Returns what an admitted turn may spend on models; None: as much as it likes.
        """
        team, agent, caller = request.team, request.agent, request.principal.token
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
