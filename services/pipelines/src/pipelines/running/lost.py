"""Gives back executions that a lost replica had, when another one starts.

A caller's gateway gives back the turns of lost workers. Callers of the HTTP API are followed by the replica that
executes, which is lost with them; without this the broker would wait `ACK_WAIT` seconds.
"""

import asyncio
from contextlib import ExitStack, suppress

from pydantic import ValidationError

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import read
from pallas_bus.turnlog.ref import TurnRef
from pallas_calls.last_claims import last_claims
from pallas_calls.worker_liveness import SILENCE, WorkerLiveness
from pallas_contracts.catalog import PIPELINES_TEAM, TURN_QUEUE, TURN_REQUESTED
from pallas_contracts.turns import TurnRequested

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
    claims = await last_claims(bus, refs[:_MOST])
    with ExitStack() as stack:
        for turn_id, claim in claims.items():
            stack.enter_context(liveness.holding(turn_id))(claim)
        await asyncio.sleep(2 * SILENCE)
