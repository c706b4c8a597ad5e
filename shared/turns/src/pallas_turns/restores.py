"""After a restore: turns of the backup that had no outcome, what they had begun, and what operators decide of each.

A decision is carried out while no executor takes turns. It is in the log first, so a decision that was interrupted is
found there and repeated. A turn that is cancelled or done gets its outcome before it leaves its queue, as every turn
does.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from pallas_bus.connection import Bus
from pallas_bus.headers import trace_headers
from pallas_bus.reads import count_by_subject, read
from pallas_bus.snapshots import stream_state
from pallas_contracts.backups import Hold, TurnDecided
from pallas_contracts.catalog import (
    TURN_CLAIM,
    TURN_DECIDED,
    TURN_EVENT,
    TURN_LOG,
    TURN_OUTCOME,
    TURN_QUEUE,
    TURN_REQUESTED,
)
from pallas_contracts.errors import Conflict, NotFound
from pallas_contracts.message import utc_now
from pallas_contracts.turns import (
    CancelRequested,
    Claimed,
    Result,
    ToolCompleted,
    ToolFailed,
    ToolStarted,
    TurnOutcome,
    TurnRequested,
    TurnStatus,
)
from pallas_turns.cancel import keeping_of
from pallas_turns.claims import ClaimState, TurnRef, claim, claim_state, request_cancel
from pallas_turns.history.turn_list import complete
from pallas_turns.history.turns import TurnHistory, fold
from pallas_turns.write import TurnWriter

DONE = (
    "An operator has marked this turn as done after a restore. It was not executed again, and its answer is not known."
)


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """A turn without an outcome. `request` and `position` are those of its message in the queue, if it is there.

    `last` is its last claim by a worker.
    """

    ref: TurnRef
    request: TurnRequested | None = None
    position: int = 0
    last: Claimed | None = None


async def decide(bus: Bus, turn: OpenTurn, decided: TurnDecided) -> None:
    """Store a decision and carry it out. The turn is executed only after the hold is released.

    Raises:
        NotFound: the turn is to be executed, and its request is not in the queue (`no_request`).
        Conflict: it was cancelled before, or somebody else decides at this moment.
        Unavailable: the broker does not answer; the call may be repeated.
    """
    if decided.decision == "run" and turn.request is None:
        raise NotFound(
            f"turn {turn.ref.turn_id!r} cannot be executed: its request is not in the queue", code="no_request"
        )
    subject = turn.ref.on(TURN_DECIDED.template)
    await bus.put(subject, decided.model_dump_json().encode(), trace_headers({}))
    match decided.decision:
        case "run":
            return
        case "cancel":
            await _cancel(bus, turn, f"cancelled by {decided.by} after a restore")
        case "done":
            await _end_as_done(bus, turn)
    await _leave_queue(bus, turn)


async def _cancel(bus: Bus, turn: OpenTurn, reason: str) -> None:
    await request_cancel(bus, turn.ref, reason, turn.request)
    state = await claim_state(bus, turn.ref)
    attempt = turn.last.attempt if turn.last is not None else 1
    writer = TurnWriter(bus, turn.ref, attempt, state.seq, await keeping_of(bus, turn.ref), early_content=True)
    await writer.conclude(_outcome(turn, attempt, "cancelled"))


async def _end_as_done(bus: Bus, turn: OpenTurn) -> None:
    state = await claim_state(bus, turn.ref)
    if isinstance(state.claim, CancelRequested):
        raise Conflict(f"turn {turn.ref.turn_id!r} was cancelled before", code="cancelled")
    ends = _claim(bus, turn, state)
    fence = await claim(bus, turn.ref, ends, after=state.seq)
    writer = TurnWriter(bus, turn.ref, ends.attempt, fence, await keeping_of(bus, turn.ref), early_content=True)
    writer.emit(Result(content=({"type": "text", "text": DONE},), is_error=True))
    await writer.conclude(_outcome(turn, ends.attempt, "completed", events=writer.last_event))


def _claim(bus: Bus, turn: OpenTurn, state: ClaimState) -> Claimed:
    """A claim that only ends the turn, with what earlier claims or the request say of it."""
    said = turn.request or turn.last
    before = state.claim.attempt if isinstance(state.claim, Claimed) else 0
    return Claimed(
        attempt=before + 1,
        ends=True,
        worker=bus.instance,
        tool=said.tool if said else None,
        principal=said.principal if said else None,
        conversation=said.conversation if said else None,
        task_hash=said.task_hash if said else None,
        digest=said.digest if said else None,
        replay_of=said.replay_of if said else None,
        requested_at=said.requested_at if said else None,
        at=utc_now(),
    )


def _outcome(turn: OpenTurn, attempt: int, status: TurnStatus, *, events: int = 0) -> TurnOutcome:
    said, now = turn.request or turn.last, utc_now()
    return TurnOutcome(
        turn_id=turn.ref.turn_id,
        team=turn.ref.team,
        agent=turn.ref.agent,
        attempt=attempt,
        status=status,
        code="cancelled" if status == "cancelled" else None,
        events=events,
        requested_at=(said.requested_at if said is not None else None) or now,
        ended_at=now,
    )


async def _leave_queue(bus: Bus, turn: OpenTurn) -> None:
    if turn.position and turn.request is not None:
        await bus.api(f"STREAM.MSG.DELETE.{TURN_QUEUE.name}", {"seq": turn.position, "no_erase": True})


@dataclass(frozen=True, slots=True)
class Begun:
    """A tool that was started. It may have taken effect, whether or not it `answered`. One that is `safe` may be called
    again."""

    tool: str
    safe: bool
    answered: bool


@dataclass(frozen=True, slots=True)
class Unsettled:
    """A turn without an outcome. `forgotten`: its log has expired, so what it had begun is not known."""

    turn: TurnHistory
    forgotten: bool = False

    @property
    def decided(self) -> TurnDecided | None:
        """The last decision about it."""
        return self.turn.decided[-1] if self.turn.decided else None

    @property
    def is_open(self) -> bool:
        """Whether an operator has still to decide. A decision that was not carried out counts as none."""
        return self.decided is None or self.decided.decision != "run"

    @property
    def begun(self) -> list[Begun]:
        """The tools with effects outside that its attempts have started, in order."""
        return list(_begun(self.turn))

    @property
    def opened(self) -> OpenTurn:
        """The turn, to decide about it."""
        last = self.turn.attempts.get(max(self.turn.attempts, default=0))
        claim = last.claim if last is not None else None
        return OpenTurn(self.turn.ref, self.turn.request, self.turn.position, claim)


def _begun(turn: TurnHistory) -> Iterator[Begun]:
    for number in sorted(turn.attempts):
        events = turn.attempts[number].in_order()
        answered = {event.call for event in events if isinstance(event, ToolCompleted | ToolFailed)}
        for event in events:
            if isinstance(event, ToolStarted) and event.leaf:
                yield Begun(f"{event.server}/{event.tool}", event.safe, event.call in answered)


async def find_unsettled(bus: Bus, hold: Hold | None) -> list[Unsettled]:
    """All turns of the backup without an outcome, by their id. Without a hold: all turns that have none.

    Raises:
        Unavailable: the broker does not answer.
    """
    queued = [record async for record in read(bus, TURN_QUEUE.name, TURN_REQUESTED.template.filter())]
    turns = fold(it for it in queued if hold is None or it.seq <= hold.queue_end)
    turns |= {turn.turn_id: turn for turn in await _only_in_log(bus) if turn.turn_id not in turns}
    await complete(bus, turns)
    left = [turn for turn in turns.values() if turn.outcome is None and _is_of(turn, hold)]
    await _read_more(bus, left)
    began = await _log_begins(bus)
    found = [Unsettled(turn, _is_before(turn, began)) for turn in left]
    return sorted(found, key=lambda each: each.turn.turn_id)


async def _only_in_log(bus: Bus) -> Iterable[TurnHistory]:
    """Turns that were claimed and have no outcome. Their requests may have come after the queue was saved."""
    claims = await count_by_subject(bus, TURN_LOG.name, TURN_CLAIM.template.filter())
    over = {_names(subject) for subject in await count_by_subject(bus, TURN_LOG.name, TURN_OUTCOME.template.filter())}
    return [TurnHistory(*names) for names in map(_names, claims) if names not in over]


def _names(subject: str) -> tuple[str, str, str]:
    team, agent, turn = subject.split(".")[4:7]
    return team, agent, turn


def _is_of(turn: TurnHistory, hold: Hold | None) -> bool:
    """Whether the turn is of the backup. A turn that is only in the log was claimed before the restore."""
    if hold is None or turn.position:
        return True
    claims = [attempt.claim.at for attempt in turn.attempts.values()]
    claims += [turn.cancel.at] if turn.cancel is not None else []
    return bool(claims) and min(claims) < hold.restored_at


async def _read_more(bus: Bus, turns: Iterable[TurnHistory]) -> None:
    """Read the attempts of turns that were claimed, with their events, and what was decided before."""
    for turn in turns:
        for contract in (TURN_CLAIM, TURN_EVENT, TURN_DECIDED) if turn.attempts else (TURN_DECIDED,):
            async for record in read(bus, TURN_LOG.name, turn.ref.on(contract.template)):
                turn.take(record)


async def _log_begins(bus: Bus) -> datetime | None:
    """When the oldest message in the log was stored, if older ones have expired."""
    log = await stream_state(bus, TURN_LOG.name)
    if log is None or int(log.state["first_seq"]) <= 1:
        return None
    return datetime.fromisoformat(log.state["first_ts"])


def _is_before(turn: TurnHistory, began: datetime | None) -> bool:
    return began is not None and turn.requested_at is not None and turn.requested_at < began
