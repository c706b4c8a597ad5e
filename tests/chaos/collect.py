"""Reads from the broker what the checker needs when a storm is over: all turns of the log, and what is still queued."""

from tests.chaos.evidence import At, LoggedTurn

from pallas_bus.connection import Bus
from pallas_bus.reads import Record, read
from pallas_contracts.catalog import TURN_LOG, TURN_QUEUE
from pallas_contracts.turns import TurnClaim, TurnEvents, TurnOutcome


async def read_log(bus: Bus) -> tuple[dict[str, LoggedTurn], list[Record]]:
    """All turns by id, and the raw records in their order."""
    turns: dict[str, LoggedTurn] = {}
    records = [record async for record in read(bus, TURN_LOG.name, "pallas.v1.turn.>")]
    for record in records:
        *_, kind, _team, agent, turn_id = record.subject.split(".")
        turn = turns.setdefault(turn_id, LoggedTurn(turn_id, agent))
        match kind:
            case "claim":
                claim = TurnClaim.model_validate_json(record.data).claim
                turn.claims.append(At(record.seq, record.time, claim))
            case "event" | "content":
                batch = TurnEvents.model_validate_json(record.data)
                turn.events += [At(record.seq, record.time, (batch.attempt, event)) for event in batch.events]
            case "outcome":
                turn.outcomes.append(At(record.seq, record.time, TurnOutcome.model_validate_json(record.data)))
            case _:
                pass
    return turns, records


async def left_in_queue(bus: Bus) -> list[str]:
    """One sentence for each queued turn and each open delivery; empty if there is none."""
    left: list[str] = []
    queue = TURN_QUEUE.name
    info = await bus.api(f"STREAM.INFO.{queue}", {})
    if count := info["state"]["messages"]:
        left.append(f"{count} messages are left in {queue}")
    consumers = await bus.api(f"CONSUMER.LIST.{queue}", {})
    for consumer in consumers["consumers"]:
        waiting, held = consumer["num_pending"], consumer["num_ack_pending"]
        if waiting or held:
            left.append(f"consumer {consumer['name']}: {waiting} pending, {held} unacknowledged")
    return left
