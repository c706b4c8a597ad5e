"""Find a turn that an earlier call with the same idempotency key has made: in its queue or in the log.

A gateway that makes a turn with a key publishes `turn.joined`. So the queue, which costs more to search, is searched
only for turns that have a `turn.joined` in the log, and for turns inside others, which nobody joins from outside.
"""

import asyncio
from dataclasses import dataclass

from pydantic import ValidationError

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import Record, read, read_at, read_newest
from pallas_bus.turnlog.claims import claim_state
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.catalog import TURN_CLAIM, TURN_JOINED, TURN_LOG, TURN_OUTCOME, TURN_QUEUE, TURN_REQUESTED
from pallas_contracts.turns import CancelRequested, Claimed, Principal, TurnClaim, TurnRequested

_BATCH = 32


@dataclass(frozen=True, slots=True)
class TurnFound:
    """A turn that exists.

    `digest` is the digest of the call that made it, None when no message that names it is left. `position` is its
    position in the queue's stream, 0 when that is not known. `cancelled` is the reason of its cancel. `seen` is the
    position in the log of its last claim or outcome, 0 when it has not been claimed.
    """

    digest: str | None
    position: int = 0
    cancelled: str | None = None
    ended: bool = False
    seen: int = 0


@dataclass(frozen=True, slots=True)
class Waiting:
    """A turn that waits or runs, with the position of its message in the queue's stream."""

    request: TurnRequested
    position: int


async def find_turn(bus: Bus, request: TurnRequested, position: int = 0) -> TurnFound | None:
    """Find the turn that `request` would make, in its present state.

    `position` is its position in the queue's stream, if that is known. If not, None may also mean that the turn is
    being put into its queue at this moment. Submitting it then stores nothing new.

    Raises:
        Unavailable: the broker did not answer.
    """
    joined = TurnRef.of(request).on(TURN_JOINED.template)
    found, was_joined = await asyncio.gather(
        find_in_log(bus, TurnRef.of(request)), read_newest(bus, TURN_LOG.name, joined)
    )
    announced = was_joined is not None or request.parent is not None
    if found is not None or not (announced or position):
        return found
    waiting = await _waiting(bus, request, position)
    if waiting is not None:
        return TurnFound(position=waiting.position, digest=waiting.request.digest)
    # A turn leaves its queue only when the log has its outcome, so one that has left since is in the log.
    return await find_in_log(bus, TurnRef.of(request))


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


async def _waiting(bus: Bus, request: TurnRequested, position: int) -> Waiting | None:
    """The turn's message in the queue. Without `position`, all messages of its caller are read."""
    if position:
        record = await read_at(bus, TURN_QUEUE.name, position)
        return _decoded(record, request.turn_id) if record is not None else None
    return await find_waiting(bus, TurnRef.of(request), request.principal)


async def find_waiting(bus: Bus, ref: TurnRef, caller: Principal) -> Waiting | None:
    """Find the turn among all turns of its caller in the agent's queue.

    Raises:
        Unavailable: the broker did not answer.
    """
    ids = {"team": ref.team, "agent": ref.agent, "caller": caller.token}
    subject = TURN_REQUESTED.template.subject(**ids)
    async for record in read(bus, TURN_QUEUE.name, subject, batch=_BATCH):
        if (found := _decoded(record, ref.turn_id)) is not None:
            return found
    return None


def _decoded(record: Record, turn_id: str) -> Waiting | None:
    """The request in a message of the queue, if it is that turn's. Others are not parsed."""
    if turn_id.encode() not in record.data:
        return None
    try:
        stored = TurnRequested.model_validate_json(record.data)
    except ValidationError:
        return None
    return Waiting(stored, record.seq) if stored.turn_id == turn_id else None


async def _first_digest(bus: Bus, ref: TurnRef) -> str | None:
    """The digest in the first claim, for a turn whose last claim is a cancel."""
    async for record in read(bus, TURN_LOG.name, ref.on(TURN_CLAIM.template), batch=1):
        first = TurnClaim.model_validate_json(record.data).claim
        return first.digest if isinstance(first, Claimed) else None
    return None
