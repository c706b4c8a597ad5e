"""The log of all turns as it is written, for people who look on. Nothing is lost while connected; nothing is kept."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from nats.aio.msg import Msg
from pydantic import ValidationError

from pallas_bus.connection import Bus
from pallas_bus.streams import live_subject
from pallas_contracts.catalog import TURN_CLAIM, TURN_CONTENT, TURN_EVENT, TURN_JOINED, TURN_OUTCOME
from pallas_contracts.turns import TurnClaim, TurnEvents, TurnJoined, TurnOutcome

log = logging.getLogger(__name__)

type Entry = TurnClaim | TurnEvents | TurnJoined | TurnOutcome

_MESSAGES: dict[str, type[Entry]] = {
    TURN_CLAIM.name: TurnClaim,
    TURN_EVENT.name: TurnEvents,
    TURN_CONTENT.name: TurnEvents,
    TURN_OUTCOME.name: TurnOutcome,
    TURN_JOINED.name: TurnJoined,
}


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One message of the log: its position, its contract's name and what it says."""

    position: int
    contract: str
    entry: Entry


@asynccontextmanager
async def tail_turns(
    bus: Bus, *, team: str | None = None, agent: str | None = None
) -> AsyncGenerator[asyncio.Queue[LogEntry]]:
    """Put every message of the log into a queue as it is stored, of one team or agent when that is given."""
    queue: asyncio.Queue[LogEntry] = asyncio.Queue()

    async def heard(message: Msg) -> None:
        contract = ".".join(message.subject.split(".")[3:5])
        try:
            entry = _MESSAGES[contract].model_validate_json(message.data)
        except (KeyError, ValidationError):
            log.warning("unreadable turn message", extra={"subject": message.subject})
            return
        queue.put_nowait(LogEntry(int((message.headers or {})["Nats-Sequence"]), contract, entry))

    subject = live_subject(f"pallas.v1.turn.*.{team or '*'}.{agent or '*'}.*")
    subscription = await bus.subscribe(subject, heard)
    try:
        yield queue
    finally:
        if bus.connected:
            await subscription.unsubscribe()
