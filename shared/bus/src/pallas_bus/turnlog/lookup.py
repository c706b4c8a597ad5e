"""Find a turn by its id, in its queue or in the log: if the id follows from a key, it may have been made before.

A turn leaves its queue only when the log has its outcome. So the queue is read before the log: a turn that has left it
meanwhile is in the log.
"""

import asyncio
from dataclasses import dataclass

from pydantic import ValidationError

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import read, read_newest
from pallas_bus.turnlog.claims import claim_state
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.catalog import TURN_CLAIM, TURN_LOG, TURN_OUTCOME, TURN_QUEUE, TURN_REQUESTED
from pallas_contracts.turns import CancelRequested, Claimed, Principal, TurnClaim, TurnRequested


@dataclass(frozen=True, slots=True)
class TurnFound:
    """A turn that exists.

    `digest` is the digest of the call that made it, None when no message that names it is left. `position` is its
    position in the queue's stream, 0 when it is not there or not known. `cancelled` is the reason of its cancel. `seen`
    is the position in the log of its last claim or outcome, 0 when it has not been claimed. `maker` is who has made a
    turn that waits.
    """

    digest: str | None
    position: int = 0
    cancelled: str | None = None
    ended: bool = False
    seen: int = 0
    maker: Principal | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A turn that waits or runs, with the position of its message in the queue's stream."""

    request: TurnRequested
    position: int


async def find_turn(bus: Bus, request: TurnRequested) -> TurnFound | None:
    """Find the turn that `request` would make, in its present state.

    None may also mean that the turn is being put into its queue at this moment. Submitting it then stores nothing new.

    Raises:
        Unavailable: the broker did not answer.
    """
    ref = TurnRef.of(request)
    waiting = await find_waiting(bus, ref)
    found = await find_in_log(bus, ref)
    if found is None and waiting is not None:
        return TurnFound(waiting.request.digest, waiting.position, maker=waiting.request.principal)
    return found


async def find_in_log(bus: Bus, ref: TurnRef) -> TurnFound | None:
    """Find the turn by its claims and its outcome.

    Raises:
        Unavailable: the broker did not answer.
    """
    ended = ref.on(TURN_OUTCOME.template)
    state, outcome = await asyncio.gather(claim_state(bus, ref), read_newest(bus, TURN_LOG.name, ended))
    if isinstance(state.claim, CancelRequested) and outcome is None:
        # The outcome may have been stored between the two reads, but not behind the cancel.
        outcome = await read_newest(bus, TURN_LOG.name, ended)
    if state.claim is None and outcome is None:
        return None
    last = state.claim
    return TurnFound(
        digest=last.digest if isinstance(last, Claimed) else await _first_digest(bus, ref),
        cancelled=last.reason if isinstance(last, CancelRequested) else None,
        ended=outcome is not None,
        seen=max(state.seq, outcome.seq if outcome is not None else 0),
    )


async def find_waiting(bus: Bus, ref: TurnRef) -> Waiting | None:
    """Find the turn in the queue of its agent, whoever has made it.

    Raises:
        Unavailable: the broker did not answer.
    """
    subject = TURN_REQUESTED.template.filter(team=ref.team, agent=ref.agent, turn=ref.turn_id)
    record = await read_newest(bus, TURN_QUEUE.name, subject)
    if record is None:
        return None
    try:
        return Waiting(TurnRequested.model_validate_json(record.data), record.seq)
    except ValidationError:
        return None


async def _first_digest(bus: Bus, ref: TurnRef) -> str | None:
    """The digest in the first claim, for a turn whose last claim is a cancel."""
    async for record in read(bus, TURN_LOG.name, ref.on(TURN_CLAIM.template), batch=1):
        first = TurnClaim.model_validate_json(record.data).claim
        return first.digest if isinstance(first, Claimed) else None
    return None
