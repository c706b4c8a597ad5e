"""The evidence of a storm for the checker: the log, the callers' views, the effects, the queue."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count, takewhile
from typing import Literal

from tests.chaos.effects import Effect
from tests.chaos.programs import Node, Program

from pallas_contracts.turns import Answered, AnyEvent, CancelRequested, Claimed, TurnOutcome

type Ended = Literal["answered", "refused", "broken", "closed", "unheard"]
"""How a call ended for its caller: with the turn's answer, with a refusal, with a stream that broke and was let go,
with a stream that the caller closed itself, or not at all within its patience."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A tool result: `code` is None for a result, else the code of the tool error."""

    turn: str | None
    code: str | None
    text: str


@dataclass
class CallerView:
    """One call as its caller saw it. `streams` are the progress messages of one stream each; a call that went on
    elsewhere has several.

    `goes_on` means that the caller can follow its turn on another gateway: it sent a key, or has received an event id,
    of which `last_event` is the last one.
    """

    key: str
    agent: str
    kind: str
    ended: Ended = "unheard"
    answer: Answer | None = None
    goes_on: bool = False
    last_event: str | None = None
    streams: list[list[str]] = field(default_factory=list[list[str]])

    @property
    def whole(self) -> list[str] | None:
        """All progress messages from beginning to end, if known: a resumed stream continues a broken one."""
        if len(self.streams) == 1 or self.last_event is not None:
            return [line for lines in self.streams for line in lines]
        return None


@dataclass(frozen=True, slots=True)
class At[T]:
    """A message in the log, with its position and time."""

    position: int
    time: datetime
    body: T


@dataclass
class LoggedTurn:
    """All messages in the log of one turn, in order. `events` have their attempts."""

    turn: str
    agent: str
    claims: list[At[Claimed | CancelRequested]] = field(default_factory=list["At[Claimed | CancelRequested]"])
    events: list[At[tuple[int, AnyEvent]]] = field(default_factory=list["At[tuple[int, AnyEvent]]"])
    outcomes: list[At[TurnOutcome]] = field(default_factory=list["At[TurnOutcome]"])

    @property
    def conversation(self) -> str | None:
        """The keyed hash of the caller's key, when a worker has claimed the turn."""
        claims = (at.body for at in self.claims)
        return next((claim.conversation for claim in claims if isinstance(claim, Claimed)), None)

    @property
    def attempts(self) -> list[int]:
        """The attempts that were claimed."""
        return [at.body.attempt for at in self.claims if isinstance(at.body, Claimed)]

    @property
    def executed(self) -> list[int]:
        """The attempts that were claimed for more than ending the turn."""
        return [at.body.attempt for at in self.claims if isinstance(at.body, Claimed) and not at.body.ends]

    def answered_before(self, attempt: int) -> frozenset[str]:
        """The calls that an attempt takes over: their answers were stored before it was claimed, behind no gap."""
        return frozenset(call for earlier in self.attempts if earlier < attempt for call in self._answered(earlier))

    def _answered(self, attempt: int) -> Iterator[str]:
        """The calls of an attempt that were answered before the next claim, up to its first event that is missing."""
        since = [at.position for at in self.claims if isinstance(at.body, Claimed) and at.body.attempt > attempt]
        stored = {
            at.body[1].seq: at.body[1]
            for at in self.events
            if at.body[0] == attempt and at.position < min(since, default=at.position + 1)
        }
        for number in takewhile(stored.__contains__, count(1)):
            if isinstance(event := stored[number], Answered):
                yield event.call

    def of_attempt(self, attempt: int) -> list[AnyEvent]:
        """The events of one attempt, by number."""
        found = {event.seq: event for number, event in (at.body for at in self.events) if number == attempt}
        return [found[seq] for seq in sorted(found)]


@dataclass(frozen=True, slots=True)
class Child:
    """A turn that an execution has requested, with the key of its node."""

    turn: str
    parent: str
    key: str


@dataclass
class Evidence:
    """Everything together. `accepted` are the turns whose requests the broker has confirmed, `calls` those of a model
    and of tools without an effect. `by_key` leads from a caller's key to its turns, `left` says what is still in the
    queue, `broker_gone` from when until when the broker was away. `programs` are those that were executed, by the keys
    of their callers, and `children` the turns that their executions have requested.
    """

    turns: dict[str, LoggedTurn]
    callers: Sequence[CallerView] = ()
    effects: Sequence[Effect] = ()
    calls: Sequence[Effect] = ()
    accepted: frozenset[str] = frozenset()
    by_key: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    left: Sequence[str] = ()
    broker_gone: Sequence[tuple[datetime, datetime]] = ()
    programs: Mapping[str, Program] = field(default_factory=dict[str, Program])
    children: frozenset[Child] = frozenset()
    safe: frozenset[str] = frozenset({"notes"})

    @property
    def executions(self) -> Iterator[tuple[str, Program, LoggedTurn]]:
        """The executions of all programs, with the keys of their callers."""
        for key, program in self.programs.items():
            for turn in self.by_key.get(key, ()):
                if turn in self.turns:
                    yield key, program, self.turns[turn]

    def turns_of(self, node: Node, execution: LoggedTurn) -> list[LoggedTurn]:
        """The turns in the log that a node of an execution has made."""
        return [self.turns[turn] for turn in node.turns(execution.turn) if turn in self.turns]
