"""Carry out what an operator decides about a turn of a backup, while no executor takes turns.

The decision is in the log first, so a decision that was interrupted is found there and repeated. A turn that is
cancelled or done gets its outcome before it leaves its queue, as every turn does.
"""

from dataclasses import dataclass

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.headers import trace_headers
from pallas_bus.turnlog.claims import ClaimState, claim, claim_state, request_cancel
from pallas_bus.turnlog.keeping import keeping_of
from pallas_bus.turnlog.ref import TurnRef
from pallas_bus.turnlog.writer import TurnWriter
from pallas_contracts.backups import TurnDecided
from pallas_contracts.catalog import TURN_DECIDED, TURN_QUEUE
from pallas_contracts.errors import Conflict, NotFound
from pallas_contracts.message import utc_now
from pallas_contracts.turns import CancelRequested, Claimed, Result, TurnOutcome, TurnRequested, TurnStatus

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
