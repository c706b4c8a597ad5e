"""Decide whether this worker executes a delivered turn now.

The first delivery claims the turn. A later one finds a claim and reads from the log what became of it: a turn that
ended is done, and a cancelled turn stays cancelled. One whose worker was lost goes on from its journal, unless a tool
had started, has not answered, and may not be called again.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_contracts.agents import AgentDefinition
from pallas_contracts.catalog import PIPELINES_TEAM, WORKERS
from pallas_contracts.errors import Conflict, Unavailable
from pallas_contracts.message import utc_now
from pallas_contracts.turns import CancelRequested, Claimed, TurnRequested
from pallas_runtime.telemetry import tracer
from pallas_turns.claims import TurnRef, claim, claim_state, stored_outcome
from pallas_turns.journal import NO_JOURNAL, Journal, LoggedTurn
from pallas_turns.runtime import Failed

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Run:
    """Execute it as this attempt, which goes on from `journal`; `fence` is the position of the claim."""

    attempt: int
    fence: int
    journal: Journal = NO_JOURNAL


@dataclass(frozen=True, slots=True)
class Conclude:
    """End it without executing it. `why` None: it was cancelled. `used_up`: no attempt is left; it may be retried."""

    attempt: int
    fence: int
    why: Failed | None
    used_up: bool = False


@dataclass(frozen=True, slots=True)
class Over:
    """It has an outcome already."""


@dataclass(frozen=True, slots=True)
class NotYet:
    """The worker that claimed it may only be slow, and what it still writes would decide: check again later."""


type Verdict = Run | Conclude | Over | NotYet


@dataclass(frozen=True, slots=True)
class Claimant:
    """A worker, the turn that it claims, and the reply subject of its delivery."""

    bus: Bus
    worker: str
    request: TurnRequested
    delivery: str | None = None

    @property
    def ref(self) -> TurnRef:
        """The identity of the turn."""
        return TurnRef.of(self.request)

    async def claim(self, attempt: int, after: int, *, ends: bool, continues: bool) -> int:
        """Claim the turn behind position `after`; returns the position of the claim (see `Claimed`).

        A claim that is not acknowledged is made once more. The claim found then may be this one, so a lost
        acknowledgement does not use up an attempt.

        Raises:
            Conflict: somebody else was first.
            Unavailable: the broker does not answer.
        """
        claimed = Claimed(
            attempt=attempt,
            ends=ends,
            continues=continues,
            worker=self.worker,
            delivery=self.delivery,
            tool=self.request.tool,
            principal=self.request.principal,
            conversation=self.request.conversation,
            task_hash=self.request.task_hash,
            digest=self.request.digest,
            parent=self.request.parent,
            replay_of=self.request.replay_of,
            operator=self.request.operator,
            requested_at=self.request.requested_at,
            at=utc_now(),
        )
        try:
            return await claim(self.bus, self.ref, claimed, after=after)
        except Unavailable as error:
            log.warning("a claim was not acknowledged", extra={"attempt": attempt, "reason": error.message})
        try:
            return await claim(self.bus, self.ref, claimed, after=after)
        except Conflict:
            state = await claim_state(self.bus, self.ref)
            if state.claim != claimed:
                raise
            return state.seq


async def claim_turn(claimant: Claimant, definition: AgentDefinition, lost: Failed | None = None) -> Verdict:
    """Claim the turn, or return what else to do with it. `lost`: it ends so if the log has nothing of it.

    Raises:
        Unavailable: the broker does not answer.
    """
    with tracer.start_as_current_span("claim_turn"):
        with suppress(Conflict):
            fence = await claimant.claim(1, 0, ends=lost is not None, continues=False)
            return Run(1, fence) if lost is None else Conclude(1, fence, lost)
        logged = LoggedTurn(claimant.bus, claimant.ref)

        async def judge(attempt: int) -> _Judged:
            return _judge(await logged.journal(attempt), definition)

        return await _take_over(claimant, judge)


async def claim_to_end(claimant: Claimant, why: Failed) -> Verdict:
    """Claim the turn only to end it with `why`, unless it has ended already.

    Raises:
        Unavailable: the broker does not answer.
    """
    with suppress(Conflict):
        return Conclude(1, await claimant.claim(1, 0, ends=True, continues=False), why)

    async def judge(_attempt: int) -> _Judged:
        return _Judged(lost=_Lost(why))

    return await _take_over(claimant, judge)


@dataclass(frozen=True, slots=True)
class _Lost:
    """Why a turn must not be executed again."""

    why: Failed
    used_up: bool = False


@dataclass(frozen=True, slots=True)
class _Judged:
    """What the log says of a turn: from where it goes on, or that it is lost."""

    journal: Journal = NO_JOURNAL
    lost: _Lost | None = None


async def _take_over(claimant: Claimant, judge: Callable[[int], Awaitable[_Judged]]) -> Verdict:
    """Claim a turn that was claimed before, to execute it or to end it as `judge` decides, or return what became of it.

    The outcome is checked and the turn is judged again after the claim: until then, the attempt before it could still
    start a tool or end the turn.
    """
    bus, ref = claimant.bus, claimant.ref
    attempt = 1
    while True:
        state = await claim_state(bus, ref)
        if await stored_outcome(bus, ref) is not None:
            return Over()
        match state.claim:
            case None:  # whoever was first is not to be read yet
                raise Unavailable(f"the claim of turn {ref.turn_id!r} cannot be read")
            case CancelRequested():
                return Conclude(attempt, state.seq, None)
            case Claimed() as claim:
                attempt = claim.attempt + 1
        judged = await judge(attempt)
        undecided = (judged.lost is not None or judged.journal.unknown) and not judged.journal.handed_back
        if undecided and await _may_live(claimant, claim.worker):
            return NotYet()
        ends, continues = judged.lost is not None, bool(judged.journal.answers)
        try:
            fence = await claimant.claim(attempt, state.seq, ends=ends, continues=continues)
        except Conflict:
            continue
        if await stored_outcome(bus, ref) is not None:
            return Over()
        if judged.lost is None:
            judged = await judge(attempt)
        if judged.lost is None:
            return Run(attempt, fence, judged.journal)
        return Conclude(attempt, fence, judged.lost.why, judged.lost.used_up)


async def _may_live(claimant: Claimant, worker: str) -> bool:
    """Whether the presence of the worker that claimed the turn has not expired: it may only be slow."""
    return worker != claimant.worker and await kv.get(claimant.bus, WORKERS, worker=worker) is not None


def _judge(journal: Journal, definition: AgentDefinition) -> _Judged:
    unknown = [tool for tool in journal.unknown.values() if journal.behind_gap or not tool.tell_model]
    if unknown:
        tool, ended = unknown[-1], "stopped" if journal.handed_back else "lost"
        why = (
            f"The worker was {ended} after the tool {tool.server}/{tool.tool} had started; whether it took effect is "
            "unknown, so the turn is not executed again. Check before you retry."
        )
        return _Judged(journal, _Lost(Failed("worker_lost", why)))
    if journal.unreadable:
        why = "The worker was lost, and the log of what it did cannot be read. Check before you retry."
        return _Judged(journal, _Lost(Failed("worker_lost", why)))
    if journal.lost >= definition.limits.max_attempts:
        times = "once" if journal.lost == 1 else f"{journal.lost} times"
        # A pipeline's calls are turns of their own, so its journal does not say which of them had effects.
        repeatable = journal.effect is None and definition.team != PIPELINES_TEAM
        may = "The turn may be retried." if repeatable else "It had called tools with effects: check before you retry."
        lost = Failed("worker_lost", f"The worker was lost {times}. {may}", retryable=repeatable)
        return _Judged(journal, _Lost(lost, used_up=repeatable))
    return _Judged(journal)
