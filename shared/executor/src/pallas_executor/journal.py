"""The journal of a turn: what its earlier attempts asked and heard, read from the log.

An attempt counts up to the claim that follows it, and up to its first gap: an event that is missing, or an answer that
could not be kept or cannot be read. Answers behind the gap do not count: they may have followed from what is missing. A
tool that may not be called again, and started behind it, counts as unknown, even if it has an answer there.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import ValidationError

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import Record, read_all
from pallas_bus.turnlog.content.claim_checks import whole_entry
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.catalog import TURN_CLAIM, TURN_CONTENT, TURN_EVENT, TURN_LOG
from pallas_contracts.errors import NotFound, Rejected
from pallas_contracts.turns import (
    Answered,
    AnyEvent,
    Claimed,
    HandedBack,
    Restarted,
    ToolStarted,
    TurnClaim,
    TurnEvents,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Journal:
    """What an attempt knows of those before it.

    `answers` are the calls that were answered, by their place in the turn. `unknown` are the tools that started, may
    not be called again, and whose answer is not known; those of `behind_gap` are not even known to belong to a call
    of `answers`. With `unreadable`, tools may have started that are not known at all. `effect` is the last tool that
    started and may not be called again, answered or not. `lost` counts the
    attempts whose worker was lost; with `handed_back` the last one is not among them. `elapsed` is the seconds from the
    first claim to the last. `traced` has the headers of the first claim, in whose trace the answers were got.
    """

    answers: Mapping[str, Answered] = field(default_factory=dict[str, Answered])
    unknown: Mapping[str, ToolStarted] = field(default_factory=dict[str, ToolStarted])
    behind_gap: bool = False
    unreadable: bool = False
    effect: ToolStarted | None = None
    lost: int = 0
    handed_back: bool = False
    elapsed: float = 0.0
    traced: Mapping[str, str] = field(default_factory=dict[str, str])


NO_JOURNAL = Journal()
"""The journal of a first attempt."""


@dataclass(slots=True)
class LoggedAttempt:
    """The events of an attempt by number, as far as they were stored before the next claim.

    `unreadable`: there are others, which cannot be decoded.
    """

    number: int
    claimed_at: datetime
    headers: Mapping[str, str]
    events: dict[int, AnyEvent] = field(default_factory=dict[int, "AnyEvent"])
    unreadable: bool = False

    def add(self, record: Record) -> None:
        """Add a message of events, if it is of this attempt. Content that cannot be decoded is missing."""
        try:
            batch = TurnEvents.model_validate_json(record.data)
        except ValidationError as error:
            log.warning("unreadable events", extra={"subject": record.subject, "faults": error.error_count()})
            self.unreadable |= record.subject.split(".")[3] == "event"
        else:
            if batch.attempt == self.number:
                self.events.update({event.seq: event for event in batch.events})


@dataclass(frozen=True)
class LoggedTurn:
    """What the log has of a turn. Reading it again reads only what was added since."""

    bus: Bus
    ref: TurnRef
    _known: dict[str, list[Record]] = field(default_factory=dict[str, list[Record]])

    async def journal(self, before: int) -> Journal:
        """The journal for attempt `before`. If its claim is stored already, no earlier attempt can add to it.

        Raises:
            Unavailable: the broker does not answer.
        """
        kinds = (self.ref.on(contract.template) for contract in (TURN_CLAIM, TURN_EVENT, TURN_CONTENT))
        found = await asyncio.gather(*(self._read(subject) for subject in kinds))
        attempts = logged_attempts(sorted((record for records in found for record in records), key=lambda it: it.seq))
        for attempt in attempts:
            for number, event in attempt.events.items():
                if isinstance(event, Answered):
                    attempt.events[number] = await _whole(self.bus, self.ref, event)
        return fold_journal(attempts, before)

    async def _read(self, subject: str) -> list[Record]:
        known = self._known.setdefault(subject, [])
        known += await read_all(self.bus, TURN_LOG.name, subject, after=known[-1].seq if known else 0)
        return known


def logged_attempts(records: Iterable[Record]) -> list[LoggedAttempt]:
    """The attempts of a turn, from its claims, events and content in the order of the log."""
    attempts: list[LoggedAttempt] = []
    for record in records:
        match record.subject.split(".")[3]:
            case "claim":
                claim = TurnClaim.model_validate_json(record.data).claim
                if isinstance(claim, Claimed):
                    attempts.append(LoggedAttempt(claim.attempt, record.time, record.headers))
            case "event" | "content" if attempts:
                attempts[-1].add(record)
            case _:
                pass
    return attempts


async def _whole(bus: Bus, ref: TurnRef, entry: Answered) -> Answered:
    """The entry with its answer; without any if it cannot be read any more."""
    try:
        return await whole_entry(bus, ref, entry)
    except (NotFound, Rejected) as error:
        log.warning("an answer of an earlier attempt cannot be read", extra={"call": entry.call, "reason": error.code})
        return entry.model_copy(update={"stowed": None})


def fold_journal(attempts: Sequence[LoggedAttempt], before: int) -> Journal:
    """The journal for attempt `before`, from the attempts in their order. Answers are whole."""
    answers: dict[str, Answered] = {}
    unknown: dict[str, ToolStarted] = {}
    behind_gap, unreadable, effect, lost, handed_back = False, False, None, before - 1, False
    for attempt in attempts:
        if attempt.number >= before:
            break
        handed_back, unreadable = False, unreadable or attempt.unreadable
        gap = next(number for number in range(1, len(attempt.events) + 2) if number not in attempt.events)
        for number in sorted(attempt.events):
            match attempt.events[number]:
                case ToolStarted(leaf=True, safe=False) as started:
                    effect = unknown[started.call] = started
                    behind_gap |= number > gap
                case Restarted() if number < gap:
                    answers.clear()
                case Answered(answer=str()) as entry if number < gap:
                    answers[entry.call] = entry
                    # Who answered has no further use for the calls inside it.
                    inside = [call for call in unknown if f"{call}.".startswith(f"{entry.call}.")]
                    for call in inside:
                        del unknown[call]
                case Answered():
                    gap = min(gap, number)
                case HandedBack():
                    lost, handed_back = lost - 1, True
                case _:
                    pass
    times = [attempt.claimed_at for attempt in attempts]
    elapsed = (times[-1] - times[0]).total_seconds() if times else 0.0
    headers: Mapping[str, str] = attempts[0].headers if attempts else {}
    return Journal(
        answers=answers,
        unknown=unknown,
        behind_gap=behind_gap,
        unreadable=unreadable,
        effect=effect,
        lost=lost,
        handed_back=handed_back,
        elapsed=elapsed,
        traced=headers,
    )
