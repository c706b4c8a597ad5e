"""The journal of a turn: what its earlier attempts asked and heard, read from the log.

An attempt counts up to the claim that follows it, and up to its first gap: an event that is missing, or an answer that
could not be kept or cannot be read. Answers behind the gap do not count: they may have followed from what is missing. A
tool that may not be called again, and started behind it, counts as unknown, even if it has an answer there.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Optional

from pydantic import ValidationError

from pallas_bus.connection import Bus
from pallas_bus.reads import Record, read_all
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
from pallas_turns.claims import TurnRef
from pallas_turns.content import whole_entry

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


@dataclass(slots=True, eq=False)
class _Step:
    """A step that is under way, unless one inside it `waits`. One that is safe may be made again as a whole."""

    outer: Optional["_Step"]
    safe: bool
    waits: int = 0

    def chain(self) -> "Iterator[_Step]":
        """This step and those that it is inside of."""
        step: _Step | None = self
        while step is not None:
            yield step
            step = step.outer


_inside: ContextVar[_Step | None] = ContextVar("the step that is under way", default=None)


class Boundary:
    """Of one attempt. After `stop`, no further step begins; `reached` is called once when those under way have ended.

    Whoever listens then cancels the attempt, after `ending` is set: a step that waits here never begins.
    """

    def __init__(self) -> None:
        self.ending = False
        self._under_way = 0
        self._waiting = 0
        self._stopping = False
        self._held = asyncio.Event()
        self._reached: Callable[[], None] | None = None

    def stop(self, reached: Callable[[], None]) -> None:
        """Stop the attempt at its next boundary. One that has no further step ends as usual."""
        self._stopping, self._reached = True, reached
        self._check()

    @asynccontextmanager
    async def step(self, *, safe: bool = False) -> AsyncGenerator[None]:
        """Make a step inside the block. One inside another waits only if the other is safe: that is made again then."""
        outer = _inside.get()
        if self._stopping and (outer is None or all(step.safe for step in outer.chain())):
            await self._wait(outer)
        self._under_way += 1
        token = _inside.set(_Step(outer, safe))
        try:
            yield
        finally:
            _inside.reset(token)
            self._under_way -= 1
            self._check()

    @contextmanager
    def elsewhere(self) -> Generator[None]:
        """Wait inside the block for what goes on without this attempt, and which the next one finds again."""
        self._waiting += 1
        try:
            self._check()
            yield
        finally:
            self._waiting -= 1

    def hold(self) -> None:
        """From here on there is no boundary, and no step waits: something has begun whose end is not known."""
        self._held.set()

    async def _wait(self, outer: _Step | None) -> None:
        self._waiting += 1
        try:
            with self._suspended(outer):
                self._check()
                await self._held.wait()
        finally:
            self._waiting -= 1

    @contextmanager
    def _suspended(self, outer: _Step | None) -> Generator[None]:
        """Do not count the steps that wait for one inside them."""
        steps = list(outer.chain()) if outer is not None else []
        for step in steps:
            self._under_way -= not step.waits
            step.waits += 1
        try:
            yield
        finally:
            for step in steps:
                step.waits -= 1
                self._under_way += not step.waits

    def _check(self) -> None:
        free = not self._under_way and not self._held.is_set()
        if self._waiting and free and self._reached is not None:
            reached, self._reached = self._reached, None
            reached()
