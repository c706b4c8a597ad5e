"""Withdraw a turn that was cancelled while it waited: write its outcome and remove it from its queue.

Only a turn that no worker has ever claimed is ended here, or one whose worker is lost. The cancel is then the last
message on its claim subject, so a worker that gets the turn meanwhile ends it as cancelled, too.
"""

import logging
from collections.abc import Callable

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import read
from pallas_bus.turnlog.claims import claim_state
from pallas_bus.turnlog.content import drop
from pallas_bus.turnlog.keeping import keeping_of
from pallas_bus.turnlog.ref import TurnRef
from pallas_bus.turnlog.writer import TurnWriter
from pallas_contracts.catalog import TURN_CLAIM, TURN_LOG, TURN_QUEUE
from pallas_contracts.errors import PallasError
from pallas_contracts.message import utc_now
from pallas_contracts.turns import CancelRequested, TurnClaim, TurnOutcome, TurnRequested

log = logging.getLogger(__name__)


async def withdraw_turn(
    bus: Bus,
    request: TurnRequested,
    position: int,
    ended: Callable[[TurnOutcome], None] | None = None,
    *,
    lost: int = 0,
) -> None:
    """End the cancelled turn whose message is at `position` in the queue's stream, unless a worker has claimed it.

    With position 0, which means unknown, this does nothing. An error is only logged: the next worker that pulls the
    turn then ends it. `ended(outcome)` is called if the turn had no outcome before. `lost` is the last attempt of a
    turn that was claimed, and whose worker is lost: it is ended, too.
    """
    if not position:
        return
    ref = TurnRef.of(request)
    try:
        fence = (await claim_state(bus, ref)).seq if lost else await first_cancel(bus, ref)
        if fence is None:
            return
        # In this order, because a turn that is in no queue must have an outcome.
        outcome = _outcome(request, lost or 1)
        writer = TurnWriter(bus, ref, lost or 1, fence, early_content=bool(lost))
        if lost:
            writer.keep = await keeping_of(bus, ref)
        if await writer.conclude(outcome) and ended is not None:
            ended(outcome)
        await bus.api(f"STREAM.MSG.DELETE.{TURN_QUEUE.name}", {"seq": position, "no_erase": True})
        if not lost:  # else there is content of an attempt, which is removed when the outcome says
            await drop(bus, ref)
    except PallasError as error:
        log.warning("cannot withdraw a turn", extra={"turn": request.turn_id, "reason": error.message})
    else:
        log.info("withdrawn", extra={"turn": request.turn_id})


async def first_cancel(bus: Bus, ref: TurnRef) -> int | None:
    """The position of the turn's cancel if nobody had claimed the turn before, else None.

    Raises:
        Unavailable: the broker did not answer.
    """
    async for record in read(bus, TURN_LOG.name, ref.on(TURN_CLAIM.template), batch=1):
        first = TurnClaim.model_validate_json(record.data).claim
        return record.seq if isinstance(first, CancelRequested) else None
    return None


def _outcome(request: TurnRequested, attempt: int) -> TurnOutcome:
    return TurnOutcome(
        turn_id=request.turn_id,
        team=request.team,
        agent=request.agent,
        attempt=attempt,
        status="cancelled",
        code="cancelled",
        requested_at=request.requested_at,
        ended_at=utc_now(),
    )
