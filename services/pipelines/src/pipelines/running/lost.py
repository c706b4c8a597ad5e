"""Gives back executions that a lost replica had, when another one starts.

A caller's gateway gives back the turns of lost workers. Callers of the HTTP API are followed by the replica that
executes, which is lost with them; without this the broker would wait `ACK_WAIT` seconds.
"""

import asyncio
from contextlib import ExitStack, suppress

from pydantic import ValidationError

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import read, read_last
from pallas_bus.turnlog.ref import TurnRef
from pallas_calls.worker_liveness import SILENCE, WorkerLiveness
from pallas_contracts.catalog import PIPELINES_TEAM, TURN_CLAIM, TURN_LOG, TURN_QUEUE, TURN_REQUESTED
from pallas_contracts.turns import Claimed, TurnClaim, TurnRequested

_MOST = 500
"""Executions that are looked at; the broker redelivers the others later."""


async def give_back_lost(bus: Bus, liveness: WorkerLiveness) -> None:
    """Watch for a moment who has the executions that are in the queue.

    Raises:
        Unavailable: the broker does not answer.
    """
    subject = TURN_REQUESTED.template.filter(team=PIPELINES_TEAM)
    refs = list[TurnRef]()
    async for record in read(bus, TURN_QUEUE.name, subject):
        with suppress(ValidationError):  # whoever takes it will say so
            refs.append(TurnRef.of(TurnRequested.model_validate_json(record.data)))
    subjects = [ref.on(TURN_CLAIM.template) for ref in refs[:_MOST]]
    claims = await read_last(bus, TURN_LOG.name, *subjects) if subjects else ()
    with ExitStack() as stack:
        for message in (TurnClaim.model_validate_json(record.data) for record in claims):
            if isinstance(message.claim, Claimed):
                stack.enter_context(liveness.holding(message.turn_id))(message.claim)
        await asyncio.sleep(2 * SILENCE)
