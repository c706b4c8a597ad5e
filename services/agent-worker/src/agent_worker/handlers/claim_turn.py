"""Decide whether a delivered turn is executed, by this worker, now.

The first delivery simply claims. Any other finds a claim already there and asks the log what became of it: a turn that
ended is done, a cancelled one stays cancelled, and one whose worker was lost is executed again only where that is safe.
"""

import logging
from dataclasses import dataclass

from agent_worker.ports import Failed
from pallas_bus.connection import Bus
from pallas_bus.direct import read
from pallas_bus.turn_writer import Address, ClaimState, claim, claim_state, stored_outcome
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.catalog import TURN_EVENT, TURN_LOG
from pallas_contracts.errors import Conflict
from pallas_contracts.turns import CancelRequested, ToolStarted, TurnEvents

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Run:
    """Execute it as this attempt; `fence` is the position of the claim."""

    attempt: int
    fence: int


@dataclass(frozen=True, slots=True)
class Conclude:
    """Do not execute it: end it like this. `why` None means it was cancelled."""

    attempt: int
    fence: int
    why: Failed | None


@dataclass(frozen=True, slots=True)
class Over:
    """It has an outcome already."""


type Verdict = Run | Conclude | Over


async def claim_turn(
    bus: Bus, address: Address, worker: str, definition: AgentDefinition, delivery: str | None = None
) -> Verdict:
    """Claim the turn, or say what else is to be done with it. `delivery` is where it can be given back for us.

    Raises:
        Unavailable: the broker does not answer.
    """
    attempt, after = 1, 0
    while True:
        try:
            return Run(attempt, await claim(bus, address, worker, attempt=attempt, after=after, delivery=delivery))
        except Conflict:
            state = await claim_state(bus, address)
        if await stored_outcome(bus, address) is not None:
            return Over()
        if state.claim is None or isinstance(state.claim, CancelRequested):
            return Conclude(attempt, state.seq, None)
        attempt, after = state.claim.attempt + 1, state.seq
        if (lost := await _why_not_again(bus, address, definition, state, attempt)) is not None:
            return await _take_over(bus, address, worker, attempt, after, lost)


async def _take_over(bus: Bus, address: Address, worker: str, attempt: int, after: int, why: Failed) -> Verdict:
    """Supersede the lost worker before the turn is ended in its place, so that it cannot go on."""
    try:
        return Conclude(attempt, await claim(bus, address, worker, attempt=attempt, after=after), why)
    except Conflict:
        return Over()


async def _why_not_again(
    bus: Bus, address: Address, definition: AgentDefinition, state: ClaimState, attempt: int
) -> Failed | None:
    tool = None if definition.retry == "safe" else await last_started_tool(bus, address)
    if tool is not None:
        return Failed(
            "worker_lost",
            f"The worker was lost after the tool {tool.server}/{tool.tool} had started; whether it took effect is "
            "unknown, so the turn is not executed again. Check before you retry.",
        )
    if attempt > definition.limits.max_attempts:
        return Failed(
            "worker_lost", f"The worker was lost {attempt - 1} times. The turn may be retried.", retryable=True
        )
    log.warning("executing again", extra={"attempt": attempt, "lost_position": state.seq})
    return None


async def last_started_tool(bus: Bus, address: Address) -> ToolStarted | None:
    """The last leaf tool that any attempt of the turn started, or None."""
    found: ToolStarted | None = None
    async for record in read(bus, TURN_LOG.name, address.on(TURN_EVENT.template)):
        for event in TurnEvents.model_validate_json(record.data).events:
            if isinstance(event, ToolStarted) and event.leaf:
                found = event
    return found
