"""Take a turn that was cancelled while it waited out of its queue, and end it: no worker has to come by for that.

Only a turn that no worker has ever claimed is ended here. Its tombstone is then the first word on who may act for it,
and the last: whatever a worker does meanwhile comes to the same end.
"""

import logging
from collections.abc import Callable

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import read
from pallas_bus.turnlog.content.objects import drop
from pallas_bus.turnlog.ref import TurnRef
from pallas_bus.turnlog.writer import TurnWriter
from pallas_contracts.catalog import TURN_CLAIM, TURN_LOG, TURN_QUEUE
from pallas_contracts.errors import PallasError
from pallas_contracts.message import utc_now
from pallas_contracts.turns import CancelRequested, TurnClaim, TurnOutcome, TurnRequested

log = logging.getLogger(__name__)


async def withdraw_turn(
    bus: Bus, request: TurnRequested, position: int, ended: Callable[[TurnOutcome], None] | None = None
) -> None:
    """End the cancelled turn whose message is at `position` of the queue's stream, unless a worker has had it.

    At position 0, which is none, nothing is done. What fails is only logged: the next worker that pulls the turn ends
    it then. `ended(outcome)` is told if this was the end, and nobody else's was before it.
    """
    if not position:
        return
    try:
        fence = await _tombstone(bus, TurnRef.of(request))
        if fence is None:
            return
        # In this order, because a turn that is in no queue must have an end.
        outcome = _outcome(request)
        if await TurnWriter(bus, TurnRef.of(request), 1, fence).conclude(outcome) and ended is not None:
            ended(outcome)
        await bus.api(f"STREAM.MSG.DELETE.{TURN_QUEUE.name}", {"seq": position, "no_erase": True})
        await drop(bus, TurnRef.of(request))
    except PallasError as error:
        log.warning("cannot withdraw a turn", extra={"turn": request.turn_id, "reason": error.message})
    else:
        log.info("withdrawn", extra={"turn": request.turn_id})


async def _tombstone(bus: Bus, ref: TurnRef) -> int | None:
    """The position of the turn's tombstone if nobody had claimed the turn before, else None."""
    async for record in read(bus, TURN_LOG.name, ref.on(TURN_CLAIM.template), batch=1):
        first = TurnClaim.model_validate_json(record.data).claim
        return record.seq if isinstance(first, CancelRequested) else None
    return None


def _outcome(request: TurnRequested) -> TurnOutcome:
    return TurnOutcome(
        turn_id=request.turn_id,
        team=request.team,
        agent=request.agent,
        attempt=1,
        status="cancelled",
        code="cancelled",
        requested_at=request.requested_at,
        ended_at=utc_now(),
    )
