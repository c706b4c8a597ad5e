"""Cancelling a turn, and what came of it."""

import asyncio
import json
from contextlib import suppress

from pallas_bus.history.turns import TurnHistory
from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.claims import request_cancel
from pallas_bus.turnlog.feeds import follow_turns
from pallas_bus.turnlog.withdraw import withdraw_turn
from pallas_cli.refused import Refused
from pallas_cli.turns.listing import find_turn
from pallas_contracts.turns import TurnOutcome

_PATIENCE = 5.0
"""Seconds for which the end of a cancelled turn is waited for."""


async def cancel(bus: Bus, turn_id: str, *, as_json: bool, patience: float = _PATIENCE) -> None:
    """Cancel a turn that waits or runs, and say how it ended, or that it has not yet.

    One that no worker has had is taken out of its queue here, whether the gateway that put it there still lives or not.

    Raises:
        Refused: the log has no such turn, or it is over.
    """
    turn = await find_turn(bus, turn_id)
    if turn.outcome is not None:
        raise Refused(f"turn {turn_id} is over: {turn.outcome.status}")
    first = await request_cancel(bus, turn.ref, "cancelled by an operator")
    if turn.request is not None:
        await withdraw_turn(bus, turn.request, turn.position)
    outcome = await _outcome(bus, turn, patience)
    if as_json:
        ended = outcome.status if outcome is not None else None
        print(json.dumps({"turn": turn_id, "cancelled": True, "first": first, "was": turn.state, "ended": ended}))
    else:
        print(f"Turn {turn_id} {'cancelled' if first else 'had been cancelled already'}{_end(turn, outcome)}")


async def _outcome(bus: Bus, turn: TurnHistory, patience: float) -> TurnOutcome | None:
    async with follow_turns(bus) as feeds:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                async for said in await feeds.resume(turn.ref):
                    if isinstance(said, TurnOutcome):
                        return said
    return None


def _end(turn: TurnHistory, outcome: TurnOutcome | None) -> str:
    """What came of it; a worker may have been quicker."""
    attempts = [turn.attempts[number] for number in sorted(turn.attempts)]
    worker = f" on {attempts[-1].claim.worker}" if attempts else ""
    if outcome is None:
        return f": it has not ended{worker} yet, but nobody can execute it any more."
    if outcome.status != "cancelled":
        return f", but it had ended{worker} before: {outcome.status}."
    return f": it ran{worker} and was stopped." if attempts else ": it had not started and is out of its queue."
