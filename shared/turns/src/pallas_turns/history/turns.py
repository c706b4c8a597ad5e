"""The history of turns, folded from their stored messages: read once, not followed.

The history of a turn that still runs has what has been stored so far.
"""

from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, get_args

from pydantic import ValidationError

from pallas_bus.connection import Bus
from pallas_bus.headers import trace_of
from pallas_bus.reads import Record, read, read_last, read_newest
from pallas_contracts.backups import TurnDecided
from pallas_contracts.catalog import (
    KEPT_REQUEST,
    TURN_CLAIM,
    TURN_DECIDED,
    TURN_LOG,
    TURN_OUTCOME,
    TURN_QUEUE,
    TURN_REQUESTED,
)
from pallas_contracts.ids import check_token
from pallas_contracts.turns import (
    AnyEvent,
    CancelRequested,
    Claimed,
    HandedBack,
    Principal,
    TurnAsked,
    TurnClaim,
    TurnEvents,
    TurnOutcome,
    TurnRequested,
    TurnStatus,
)
from pallas_turns.claims import TurnRef

_OF_ITS_TRACE = frozenset({"requested", "outcome"})
"""Messages in the trace of the turn, as workers' claims are. Others may be in the trace of a later request, by a caller
who cancels the turn.
"""

_TURN = "pallas.v1.turn."

_KINDS = ("claim", "event", "outcome")
"""The messages of a turn without content, claims first."""

type State = Literal["waiting", "running", TurnStatus]
STATES: tuple[State, ...] = get_args(State.__value__)


@dataclass
class AttemptHistory:
    """One attempt: its claim, and its events by number."""

    claim: Claimed
    events: dict[int, AnyEvent] = field(default_factory=dict[int, "AnyEvent"])

    def in_order(self) -> list[AnyEvent]:
        """The attempt's events, by number."""
        return [self.events[number] for number in sorted(self.events)]

    @property
    def handed_back(self) -> HandedBack | None:
        """The event by which its worker gave the turn back, if it did."""
        return next((event for event in self.events.values() if isinstance(event, HandedBack)), None)


@dataclass
class TurnHistory:
    """One turn as the log has it.

    `request` and `position` are those of its message in the queue, while it is there. `kept` is the kept request of a
    turn that has ended. `trace` is the id of its trace. `attempts` are by number.
    `decided` is what operators have decided about it after a restore.
    """

    team: str
    agent: str
    turn_id: str
    request: TurnRequested | None = None
    attempts: dict[int, AttemptHistory] = field(default_factory=dict[int, AttemptHistory])
    cancel: CancelRequested | None = None
    outcome: TurnOutcome | None = None
    position: int = 0
    kept: TurnRequested | None = None
    trace: str | None = None
    decided: list[TurnDecided] = field(default_factory=list[TurnDecided])

    @property
    def ref(self) -> TurnRef:
        """The identity of the turn."""
        return TurnRef(self.team, self.agent, self.turn_id)

    @property
    def state(self) -> State:
        """Whether the turn waits, also for another worker after one has given it back; runs; or how it ended.

        A call that was cancelled before it came has no outcome, since no turn was made of it.
        """
        if self.outcome is not None:
            return self.outcome.status
        if self.cancel is not None and self.request is None and not self.attempts:
            return "cancelled"
        last = self.attempts.get(max(self.attempts, default=0))
        return "waiting" if last is None or last.handed_back is not None else "running"

    @property
    def requested_at(self) -> datetime | None:
        """When the caller made the request; None if the log does not have it."""
        if self.request is not None:
            return self.request.requested_at
        if self.outcome is not None:
            return self.outcome.requested_at
        about = self._about
        return about.requested_at if about is not None else None

    @property
    def tool(self) -> str | None:
        """The tool that was called; None if the log does not have it."""
        about = self._about
        return about.tool if about is not None else None

    @property
    def caller(self) -> str | None:
        """The caller as `type:id`; None if the log does not have it."""
        principal = self.principal
        return principal.label if principal is not None else None

    @property
    def conversation(self) -> str | None:
        """The keyed hash of the caller's conversation id; None if it gave none, or the log does not have it."""
        about = self._about
        return about.conversation if about is not None else None

    @property
    def task(self) -> str | None:
        """The keyed hash of the caller's task id; None if it gave none, or the log does not have it."""
        about = self._about
        return about.task_hash if about is not None else None

    @property
    def replay_of(self) -> str | None:
        """The id of the turn that this one executes again, or None."""
        about = self._about
        return about.replay_of if about is not None else None

    @property
    def operator(self) -> str | None:
        """Who had the turn executed again in its caller's name, as `type:id`, or None."""
        about = self._about
        operator = about.operator if about is not None else None
        return operator.label if operator is not None else None

    @property
    def parent(self) -> str | None:
        """The id of the turn that made this one, or None."""
        about = self._about
        return about.parent if about is not None else None

    @property
    def principal(self) -> Principal | None:
        """The caller; None if the log does not have it."""
        about = self._about
        return about.principal if about is not None else None

    @property
    def _about(self) -> TurnRequested | TurnAsked | None:
        """The request, or what a claim or the cancel repeats of it."""
        if self.request is not None or self.attempts:
            return self.request or next(attempt.claim for attempt in self.attempts.values())
        return self.cancel.asked if self.cancel is not None else None

    def take(self, record: Record) -> bool:
        """Add one message of the turn. False: it cannot be decoded, and is left out."""
        kind = record.subject.split(".")[3]
        if kind in _OF_ITS_TRACE:
            self.trace = self.trace or trace_of(record.headers)
        try:
            match kind:
                case "requested":
                    self.request = TurnRequested.model_validate_json(record.data)
                    self.position = record.seq
                case "request":
                    self.kept = TurnRequested.model_validate_json(record.data)
                case "claim":
                    self._claimed(TurnClaim.model_validate_json(record.data).claim, record)
                case "event" | "content":
                    self._happened(TurnEvents.model_validate_json(record.data))
                case "outcome":
                    self.outcome = TurnOutcome.model_validate_json(record.data)
                case "turn":
                    self.decided.append(TurnDecided.model_validate_json(record.data))
                case _:
                    pass
        except ValidationError:
            return False
        return True

    def _claimed(self, claim: Claimed | CancelRequested, record: Record) -> None:
        if isinstance(claim, CancelRequested):
            self.cancel = claim
        else:
            self.attempts[claim.attempt] = AttemptHistory(claim)
            self.trace = self.trace or trace_of(record.headers)

    def _happened(self, batch: TurnEvents) -> None:
        if (attempt := self.attempts.get(batch.attempt)) is not None:
            attempt.events.update({event.seq: event for event in batch.events})


def fold(records: Iterable[Record]) -> dict[str, TurnHistory]:
    """The histories of all turns that the records belong to, by turn id. `records` are in the order of the log."""
    turns: dict[str, TurnHistory] = {}
    for record in records:
        fold_into(turns, record)
    return turns


def fold_into(turns: dict[str, TurnHistory], record: Record) -> TurnHistory | None:
    """Add one message to the history of its turn, which is returned; None if it cannot be decoded."""
    turn_id = record.subject.rpartition(".")[2]
    team, agent = record.subject.split(".")[4:6]
    turn = turns.get(turn_id) or TurnHistory(team, agent, turn_id)
    if not turn.take(record):
        return None
    turns[turn_id] = turn
    return turn


async def read_turn(bus: Bus, turn_id: str, *, most_content: int | None = None) -> TurnHistory | None:
    """Read all stored messages of one turn; None if there are none.

    Of a turn with more than `most_content` bytes of content, only the last message of it is read.

    Raises:
        Rejected: `turn_id` is not a token (`bad_token`).
        Unavailable: the broker does not answer.
    """
    check_token(turn_id, "turn")
    turn = fold(await _read_log(bus, turn_id, most_content)).get(turn_id)
    if turn is not None:
        async for record in read(bus, TURN_LOG.name, turn.ref.on(TURN_DECIDED.template), batch=1):
            turn.take(record)
    if turn is None or turn.outcome is None:
        for record in await read_last(bus, TURN_QUEUE.name, TURN_REQUESTED.template.filter(turn=turn_id)):
            turn = fold_into({turn_id: turn} if turn is not None else {}, record) or turn
    elif (kept := await read_newest(bus, TURN_LOG.name, turn.ref.on(KEPT_REQUEST.template))) is not None:
        turn.take(kept)
    return turn


async def _read_log(bus: Bus, turn_id: str, most_content: int | None) -> list[Record]:
    records: list[Record] = []
    size = 0
    async with aclosing(read(bus, TURN_LOG.name, f"{_TURN}*.*.*.{turn_id}")) as reading:
        async for record in reading:
            size += len(record.data) if record.subject.startswith(f"{_TURN}content.") else 0
            if most_content is not None and size > most_content:
                break
            records.append(record)
        else:
            return records
    kinds = (f"{_TURN}{kind}.*.*.{turn_id}" for kind in _KINDS)
    records = [record for subject in kinds async for record in read(bus, TURN_LOG.name, subject)]
    return [*records, *await read_last(bus, TURN_LOG.name, f"{_TURN}content.*.*.{turn_id}")]


async def read_turns(
    bus: Bus, *, since: datetime | None = None, team: str | None = None, agent: str | None = None
) -> list[TurnHistory]:
    """Read the turns in the queue, and those with a claim or outcome that was stored after `since`; without events.

    `since` None reads the whole log. The result is ordered by turn id.

    Raises:
        Unavailable: the broker does not answer.
    """
    ids = {name: value for name, value in (("team", team), ("agent", agent)) if value is not None}
    records = [record async for record in read(bus, TURN_QUEUE.name, TURN_REQUESTED.template.filter(**ids))]
    for contract in (TURN_CLAIM, TURN_OUTCOME):
        records += [record async for record in read(bus, TURN_LOG.name, contract.template.filter(**ids), since=since)]
    return sorted(fold(records).values(), key=lambda turn: turn.turn_id)
