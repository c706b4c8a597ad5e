"""Decodes stored messages of turns, for the commands that show them."""

import logging
from dataclasses import dataclass

from pydantic import ValidationError

from pallas_bus.history.recorded import Recorded
from pallas_contracts.catalog import (
    TURN_CLAIM,
    TURN_CONTENT,
    TURN_EVENT,
    TURN_OUTCOME,
    TURN_REQUESTED,
)
from pallas_contracts.turns import TurnClaim, TurnEvents, TurnOutcome, TurnRequested

log = logging.getLogger(__name__)

type Entry = TurnRequested | TurnClaim | TurnEvents | TurnOutcome

_MESSAGES: dict[str, type[Entry]] = {
    TURN_REQUESTED.name: TurnRequested,
    TURN_CLAIM.name: TurnClaim,
    TURN_EVENT.name: TurnEvents,
    TURN_CONTENT.name: TurnEvents,
    TURN_OUTCOME.name: TurnOutcome,
}


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One message of a turn: its position in its stream, the name of its contract, and the decoded message."""

    position: int
    contract: str
    entry: Entry


def entry_of(message: Recorded) -> LogEntry | None:
    """Decode a stored message; None if it is no message of a turn or cannot be decoded."""
    contract = ".".join(message.record.subject.split(".")[2:4])
    try:
        return LogEntry(message.record.seq, contract, _MESSAGES[contract].model_validate_json(message.record.data))
    except (KeyError, ValidationError):
        log.warning("unreadable turn message", extra={"subject": message.record.subject})
        return None
