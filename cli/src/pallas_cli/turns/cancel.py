"""Cancels a turn and prints how it ended."""

import asyncio
import json
from contextlib import suppress

from pallas_bus.history.turns import TurnHistory
from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.claims import request_cancel
from pallas_bus.turnlog.feeds import follow_turns
from pallas_bus.turnlog.withdraw import withdraw_turn
from pallas_cli.plain_text import print_plain
from pallas_cli.refused import Refused
from pallas_cli.turns.listing import find_turn
from pallas_contracts.turns import TurnOutcome

_TIMEOUT = 5.0
"""Seconds to wait for the outcome of a cancelled turn."""


async def cancel(bus: Bus, turn_id: str, *, as_json: bool, timeout: float = _TIMEOUT) -> None:
    """Cancel a turn that waits or runs, and print how it ended or that it has not ended yet.

    A turn that no worker has claimed is removed from its queue here, because its gateway may be gone.

    Raises:
        Refused: the turn is not in the log, or it has ended.
    """
    turn = await find_turn(bus, turn_id)
    if turn.outcome is not None:
        raise Refused(f"turn {turn_id} has already ended: {turn.outcome.status}")
    first = await request_cancel(bus, turn.ref, "cancelled by an operator", turn.request)
    if turn.request is not None:
        await withdraw_turn(bus, turn.request, turn.position)
    outcome = await _outcome(bus, turn, timeout)
    if as_json:
        ended = outcome.status if outcome is not None else None
        print(json.dumps({"turn": turn_id, "cancelled": True, "first": first, "was": turn.state, "ended": ended}))
    else:
        print_plain(f"Turn {turn_id} {'cancelled' if first else 'was already cancelled'}{_end(turn, outcome)}")


async def _outcome(bus: Bus, turn: TurnHistory, timeout: float) -> TurnOutcome | None:
    async with follow_turns(bus) as feeds:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                async for item in await feeds.resume(turn.ref):
                    if isinstance(item, TurnOutcome):
                        return item
    return None


def _end(turn: TurnHistory, outcome: TurnOutcome | None) -> str:
    """How the turn ended. A worker may have ended it before the cancellation."""
    attempts = [turn.attempts[number] for number in sorted(turn.attempts)]
    worker = f" on {attempts[-1].claim.worker}" if attempts else ""
    if outcome is None:
        return f": it has not ended{worker} yet, but no worker can continue it."
    if outcome.status != "cancelled":
        return f", but it had already ended{worker}: {outcome.status}."
    return f": it ran{worker} and was stopped." if attempts else ": it had not started and was removed from its queue."
