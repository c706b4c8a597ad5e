"""Reads from the broker what the checker needs when a storm is over: all turns of the log, and what is still queued."""

from collections.abc import AsyncIterator

from tests.chaos.evidence import At, LoggedTurn

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import Record, read
from pallas_bus.turnlog.logs import shards_of
from pallas_contracts.catalog import TURN_LOG, TURN_QUEUE
from pallas_contracts.shards import name_in, prefix_of
from pallas_contracts.turns import Moved, TurnClaim, TurnEvents, TurnOutcome


async def read_log(bus: Bus) -> tuple[dict[str, LoggedTurn], list[Record]]:
    """All turns by id, and the raw records in their order."""
    turns: dict[str, LoggedTurn] = {}
    records = [record async for record in _log(bus)]
    for record in records:
        *_, kind, _team, agent, turn_id = record.subject.split(".")
        turn = turns.setdefault(turn_id, LoggedTurn(turn_id, agent))
        match kind:
            case "claim":
                claim = TurnClaim.model_validate_json(record.data).claim
                if isinstance(claim, Moved):
                    continue  # the turn is in another shard
                turn.claims.append(At(record.seq, record.time, claim))
            case "event" | "content":
                batch = TurnEvents.model_validate_json(record.data)
                turn.events += [At(record.seq, record.time, (batch.attempt, event)) for event in batch.events]
            case "outcome":
                turn.outcomes.append(At(record.seq, record.time, TurnOutcome.model_validate_json(record.data)))
            case _:
                pass
    return turns, records


async def _log(bus: Bus) -> AsyncIterator[Record]:
    for shard in range(bus.shards):
        async for record in read(bus, name_in(TURN_LOG, shard), f"{prefix_of(shard)}turn.>"):
            yield record


async def left_in_queue(bus: Bus) -> list[str]:
    """One sentence for each queued turn and each open delivery; empty if there is none."""
    return [line for queue in shards_of(bus, TURN_QUEUE) for line in await _left_in(bus, queue.name)]


async def _left_in(bus: Bus, queue: str) -> list[str]:
    left: list[str] = []
    info = await bus.api(f"STREAM.INFO.{queue}", {})
    if count := info["state"]["messages"]:
        left.append(f"{count} messages are left in {queue}")
    consumers = await bus.api(f"CONSUMER.LIST.{queue}", {})
    for consumer in consumers["consumers"]:
        waiting, held = consumer["num_pending"], consumer["num_ack_pending"]
        if waiting or held:
            left.append(f"consumer {consumer['name']}: {waiting} pending, {held} unacknowledged")
    return left
