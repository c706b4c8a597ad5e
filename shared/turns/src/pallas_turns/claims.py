"""A turn, its claims and its outcome: the last message on its claim subject decides who may act for it.

A claim names the position of the claim that it supersedes. The broker refuses it if that is not the last one any more.
A cancel is written behind any claim, and no claim may follow a cancel.

A turn whose id follows from a key may have been made before. It leaves its queue only when the log has its outcome. So
the queue is read before the log: a turn that has left it meanwhile is in the log.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import ValidationError

from pallas_bus.connection import Bus, Msg
from pallas_bus.headers import EXPECTED, trace_headers
from pallas_bus.reads import newest_position, read, read_last, read_newest
from pallas_bus.streams import live_subject
from pallas_contracts.catalog import (
    TURN_CLAIM,
    TURN_LOG,
    TURN_OUTCOME,
    TURN_QUEUE,
    TURN_REQUESTED,
)
from pallas_contracts.contract import Template
from pallas_contracts.errors import Conflict, Unavailable
from pallas_contracts.message import utc_now
from pallas_contracts.turns import CancelRequested, Claimed, Principal, TurnAsked, TurnClaim, TurnOutcome, TurnRequested


@dataclass(frozen=True, slots=True)
class TurnRef:
    """The team, agent and id of a turn."""

    team: str
    agent: str
    turn_id: str

    @classmethod
    def of(cls, request: TurnRequested) -> "TurnRef":
        """The identity of a requested turn."""
        return cls(request.team, request.agent, request.turn_id)

    def on(self, template: Template) -> str:
        """The turn's subject for a template of the catalogue."""
        return template.subject(team=self.team, agent=self.agent, turn=self.turn_id)

    @property
    def facts(self) -> dict[str, str]:
        """The fields that name the turn in log lines."""
        return {"team": self.team, "agent": self.agent, "turn": self.turn_id}

    @property
    def everything(self) -> str:
        """The subject filter that matches all messages of the turn in the log."""
        return f"pallas.v1.turn.*.{self.team}.{self.agent}.{self.turn_id}"


class Cursor(NamedTuple):
    """How far a turn has been read: an attempt and the number of an event in it; 0 means before the first."""

    attempt: int = 0
    event: int = 0


BEGINNING = Cursor()
"""Nothing has been read."""

log = logging.getLogger(__name__)

_TRIES = 5


@dataclass(frozen=True, slots=True)
class ClaimState:
    """The last claim or cancel of a turn; `seq` is its position, which the next claim must name (0: there is none)."""

    seq: int
    claim: Claimed | CancelRequested | None


async def claim(bus: Bus, ref: TurnRef, claimed: Claimed, *, after: int) -> int:
    """Claim the turn, directly behind the claim at position `after` (0: none). Returns the claim's position.

    Raises:
        Conflict: somebody else has claimed or cancelled it (`wrong_last_sequence`).
        Unavailable: the broker did not answer.
    """
    claim = TurnClaim(turn_id=ref.turn_id, team=ref.team, agent=ref.agent, claim=claimed)
    stored = await bus.put(
        ref.on(TURN_CLAIM.template), claim.model_dump_json().encode(), trace_headers({EXPECTED: str(after)})
    )
    return stored.seq


async def request_cancel(bus: Bus, ref: TurnRef, reason: str, asked: TurnRequested | TurnAsked | None = None) -> bool:
    """Cancel the turn, behind its last claim if it has one. Returns False if it was cancelled before.

    `asked` is the request, or what is known of it: of a turn that nobody has claimed, only the cancel can repeat it.

    The first attempt assumes that nobody has claimed the turn, and reads nothing. So after an outage the cancel reaches
    the broker directly behind the turn itself, before the turn is delivered to a worker.

    Raises:
        Unavailable: the broker did not answer, or claims kept changing.
    """
    subject, state = ref.on(TURN_CLAIM.template), ClaimState(0, None)
    claim = cancel_of(ref, reason, asked)
    for _ in range(_TRIES):
        try:
            await bus.put(subject, claim.model_dump_json().encode(), trace_headers({EXPECTED: str(state.seq)}))
        except Conflict:
            state = await claim_state(bus, ref)
        else:
            return True
        if isinstance(state.claim, CancelRequested):
            return False
    raise Unavailable(f"the claims of turn {ref.turn_id!r} kept changing")


async def cancel_unclaimed(bus: Bus, ref: TurnRef, reason: str, asked: TurnRequested) -> bool:
    """Cancel the turn unless it was claimed or cancelled before. Returns whether this has cancelled it.

    Raises:
        Unavailable: the broker did not answer; the call may be repeated.
    """
    headers = {EXPECTED: "0", "Nats-Msg-Id": f"{TURN_CLAIM.name}:{ref.turn_id}:unclaimed"}
    claim = cancel_of(ref, reason, asked)
    try:
        await bus.put(ref.on(TURN_CLAIM.template), claim.model_dump_json().encode(), trace_headers(headers))
    except Conflict:
        return False
    return True


def cancel_of(ref: TurnRef, reason: str, asked: TurnRequested | TurnAsked | None) -> TurnClaim:
    """The message that cancels a turn."""
    repeated = TurnAsked.of(asked) if asked is not None else None
    cancel = CancelRequested(reason=reason, asked=repeated, at=utc_now())
    return TurnClaim(turn_id=ref.turn_id, team=ref.team, agent=ref.agent, claim=cancel)


async def claim_state(bus: Bus, ref: TurnRef) -> ClaimState:
    """Read the last claim or cancel of a turn.

    Raises:
        Unavailable: the broker did not answer.
    """
    record = await read_newest(bus, TURN_LOG.name, ref.on(TURN_CLAIM.template))
    if record is None:
        return ClaimState(0, None)
    return ClaimState(record.seq, TurnClaim.model_validate_json(record.data).claim)


async def last_position(bus: Bus, ref: TurnRef) -> int:
    """The position of the last claim or cancel of a turn, 0 when there is none.

    Raises:
        Unavailable: the broker did not answer.
    """
    return await newest_position(bus, TURN_LOG.name, ref.on(TURN_CLAIM.template))


async def stored_outcome(bus: Bus, ref: TurnRef) -> TurnOutcome | None:
    """Read the turn's outcome, or None while it has none.

    Raises:
        Unavailable: the broker did not answer.
    """
    record = await read_newest(bus, TURN_LOG.name, ref.on(TURN_OUTCOME.template))
    return TurnOutcome.model_validate_json(record.data) if record else None


async def stored_outcomes(bus: Bus, refs: Iterable[TurnRef]) -> dict[str, TurnOutcome]:
    """Read the outcomes of turns by their ids; those without one are left out. A replica of the log may lag behind.

    Raises:
        Unavailable: the broker did not answer.
    """
    records = await read_last(bus, TURN_LOG.name, *(ref.on(TURN_OUTCOME.template) for ref in refs))
    return {it.turn_id: it for it in (TurnOutcome.model_validate_json(record.data) for record in records)}


@asynccontextmanager
async def watch_claims(
    bus: Bus, on_claim: Callable[[TurnClaim, int], None], *, team: str | None = None
) -> AsyncGenerator[None]:
    """Call `on_claim(claim, position)` for every claim and cancel (of one team) as it is stored, inside the block."""
    wanted = TURN_CLAIM.template.filter(**({"team": team} if team is not None else {}))

    def arrived(message: Msg) -> None:
        try:
            claim = TurnClaim.model_validate_json(message.data)
        except ValidationError as error:
            log.warning("unreadable claim", extra={"subject": message.subject, "faults": error.error_count()})
        else:
            on_claim(claim, int((message.headers or {})["Nats-Sequence"]))

    subscription = await bus.listen(live_subject(wanted), arrived)
    try:
        yield
    finally:
        await bus.unsubscribe(subscription)


@dataclass(frozen=True, slots=True)
class TurnFound:
    """A turn that exists.

    `digest` is the digest of the call that made it, None when no message that names it is left. `position` is its
    position in the queue's stream, 0 when it is not there or not known. `cancelled` is the reason of its cancel. `seen`
    is the position in the log of its last claim or outcome, 0 when it has not been claimed. `maker` is who has made a
    turn that waits.
    """

    digest: str | None
    position: int = 0
    cancelled: str | None = None
    ended: bool = False
    seen: int = 0
    maker: Principal | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A turn that waits or runs, with the position of its message in the queue's stream."""

    request: TurnRequested
    position: int


async def find_turn(bus: Bus, request: TurnRequested) -> TurnFound | None:
    """Find the turn that `request` would make, in its present state.

    None may also mean that the turn is being put into its queue at this moment. Submitting it then stores nothing new.

    Raises:
        Unavailable: the broker did not answer.
    """
    ref = TurnRef.of(request)
    waiting = await find_waiting(bus, ref)
    found = await find_in_log(bus, ref)
    if found is None and waiting is not None:
        return TurnFound(waiting.request.digest, waiting.position, maker=waiting.request.principal)
    return found


async def find_in_log(bus: Bus, ref: TurnRef) -> TurnFound | None:
    """Find the turn by its claims and its outcome.

    Raises:
        Unavailable: the broker did not answer.
    """
    ended = ref.on(TURN_OUTCOME.template)
    state, outcome = await asyncio.gather(claim_state(bus, ref), read_newest(bus, TURN_LOG.name, ended))
    if isinstance(state.claim, CancelRequested) and outcome is None:
        # The outcome may have been stored between the two reads, but not behind the cancel.
        outcome = await read_newest(bus, TURN_LOG.name, ended)
    if state.claim is None and outcome is None:
        return None
    last = state.claim
    return TurnFound(
        digest=last.digest if isinstance(last, Claimed) else await _first_digest(bus, ref),
        cancelled=last.reason if isinstance(last, CancelRequested) else None,
        ended=outcome is not None,
        seen=max(state.seq, outcome.seq if outcome is not None else 0),
    )


async def find_waiting(bus: Bus, ref: TurnRef) -> Waiting | None:
    """Find the turn in the queue of its agent, whoever has made it.

    Raises:
        Unavailable: the broker did not answer.
    """
    subject = TURN_REQUESTED.template.filter(team=ref.team, agent=ref.agent, turn=ref.turn_id)
    record = await read_newest(bus, TURN_QUEUE.name, subject)
    if record is None:
        return None
    try:
        return Waiting(TurnRequested.model_validate_json(record.data), record.seq)
    except ValidationError:
        return None


async def _first_digest(bus: Bus, ref: TurnRef) -> str | None:
    """The digest in the first claim, for a turn whose last claim is a cancel."""
    async for record in read(bus, TURN_LOG.name, ref.on(TURN_CLAIM.template), batch=1):
        first = TurnClaim.model_validate_json(record.data).claim
        return first.digest if isinstance(first, Claimed) else None
    return None
