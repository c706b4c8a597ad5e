"""Cancels the turns that an execution has made, when it is ended without running to its own end."""

import asyncio

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import read_all
from pallas_bus.turnlog.ref import TurnRef
from pallas_calls.cancel_turn import cancel_turn
from pallas_contracts.catalog import TURN_EVENT, TURN_LOG
from pallas_contracts.ids import child_id
from pallas_contracts.turns import ToolCompleted, ToolFailed, ToolStarted, TurnEvents


async def cancel_children(bus: Bus, ref: TurnRef) -> None:
    """Cancel every child whose start is in the log and whose end is not.

    A start is stored before its child is submitted, and nothing can be stored behind a cancel. So none is missed.

    Raises:
        Unavailable: the broker does not answer.
    """
    open_calls: dict[str, TurnRef] = {}
    for record in await read_all(bus, TURN_LOG.name, ref.on(TURN_EVENT.template)):
        for event in TurnEvents.model_validate_json(record.data).events:
            match event:
                case ToolStarted(call=call, server=server, leaf=False):
                    team, _, agent = server.partition("/")
                    open_calls[call] = TurnRef(team, agent, child_id(ref.turn_id, call))
                case ToolCompleted(call=call) | ToolFailed(call=call):
                    open_calls.pop(call, None)
                case _:
                    pass
    reason = "the pipeline that called it has ended"
    await asyncio.gather(*(cancel_turn(bus, child, reason) for child in open_calls.values()))
