"""Who has turns that were claimed before this process began to listen: their last claims, read from the log."""

from collections.abc import Iterable

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import read_last
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.catalog import TURN_CLAIM, TURN_LOG
from pallas_contracts.turns import Claimed, TurnClaim


async def last_claims(bus: Bus, refs: Iterable[TurnRef]) -> dict[str, Claimed]:
    """The last claims of turns, by turn; those that nobody has claimed, or that were cancelled, have none.

    Raises:
        Unavailable: the broker does not answer.
    """
    records = await read_last(bus, TURN_LOG.name, *(ref.on(TURN_CLAIM.template) for ref in refs))
    messages = [TurnClaim.model_validate_json(record.data) for record in records]
    return {message.turn_id: message.claim for message in messages if isinstance(message.claim, Claimed)}
