"""Ends of turns that nobody executes: cancelled ones are withdrawn from their queue, those without a worker given up.

A cancel is in the log before anybody is notified of it. Only a turn that no worker has ever claimed is ended here, or
one whose worker is lost. The cancel is then the last message on its claim subject, so a worker that gets the turn
meanwhile ends it as cancelled, too.

When a call is admitted, its agent may have a worker, or get one soon. Later the agent may turn out to fail on every
worker, or stay without one. A turn that nobody has claimed is not executed then. One that was claimed waits as well
when its worker is lost, or has handed it back: what it did is not known.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

from pydantic import ValidationError

from pallas_bus import kv
from pallas_bus.connection import Bus
from pallas_bus.errors import retry_while_unavailable
from pallas_bus.kv import Table
from pallas_bus.reads import read
from pallas_contracts.agents import Limits, WorkerPresence
from pallas_contracts.catalog import AGENTS, TURN_CLAIM, TURN_LOG, TURN_QUEUE, TURN_REQUESTED
from pallas_contracts.errors import PallasError, Unavailable
from pallas_contracts.message import utc_now
from pallas_contracts.turns import CancelRequested, Claimed, TurnAsked, TurnClaim, TurnOutcome, TurnRequested
from pallas_turns.admission import failed_to_start
from pallas_turns.claims import TurnRef, cancel_unclaimed, claim_state, find_waiting, request_cancel
from pallas_turns.content import drop
from pallas_turns.model import AGENT_RETRY_AFTER_MS, Refusal
from pallas_turns.queue import deliveries_of, queue_state
from pallas_turns.write import CONTENT_SECONDS, KEPT, Keeping, TurnWriter

log = logging.getLogger(__name__)


async def cancel_turn(bus: Bus, ref: TurnRef, reason: str, asked: TurnRequested | TurnAsked | None = None) -> None:
    """Write the cancel, retrying while the broker is unavailable; log an error after the retry's deadline.

    `asked` is the request, or what is known of it. A turn that was not made yet cannot be executed any more.
    """
    facts = {"turn": ref.turn_id}
    try:
        await retry_while_unavailable(lambda: request_cancel(bus, ref, reason, asked), "cancel the turn", facts=facts)
    except PallasError as error:
        log.error("not cancelled", extra={**facts, "why": reason, "reason": error.message})
    else:
        log.info("cancel requested", extra={**facts, "why": reason})


async def keeping_of(bus: Bus, ref: TurnRef) -> Keeping:
    """How long content of turns of the agent is kept, as its definition says; else for `CONTENT_SECONDS`.

    The setting of the executors is not known here.

    Raises:
        Unavailable: the broker did not answer.
    """
    try:
        definition = await kv.get(bus, AGENTS, team=ref.team, agent=ref.agent)
    except PallasError as error:
        if error.code != "undecodable":
            raise
        definition = None
    limits = definition.limits if definition is not None else Limits()
    return limits.keeping(CONTENT_SECONDS)


async def withdraw_turn(
    bus: Bus,
    request: TurnRequested,
    position: int,
    ended: Callable[[TurnOutcome], None] | None = None,
    *,
    lost: int = 0,
) -> None:
    """End the cancelled turn whose message was at `position` in the queue's stream, unless a worker has claimed it.

    With position 0, which means unknown, this does nothing. An error is only logged: the next worker that pulls the
    turn then ends it. `ended(outcome)` is called if the turn had no outcome before. `lost` is the last attempt of a
    turn that was claimed, and whose worker is lost: it is ended, too.
    """
    if not position:
        return
    ref = TurnRef.of(request)
    try:
        fence = (await claim_state(bus, ref)).seq if lost else await first_cancel(bus, ref)
        if fence is None:
            return
        # In this order, because a turn that is in no queue must have an outcome.
        outcome = _outcome(request, lost or 1)
        keep = await keeping_of(bus, ref) if lost else KEPT
        writer = TurnWriter(bus, ref, lost or 1, fence, keep, early_content=bool(lost))
        if await writer.conclude(outcome) and ended is not None:
            ended(outcome)
        if (waiting := await find_waiting(bus, ref)) is not None:  # at `position`, unless the queue was made again
            await bus.api(f"STREAM.MSG.DELETE.{TURN_QUEUE.name}", {"seq": waiting.position, "no_erase": True})
        if not lost:  # else there is content of an attempt, which is removed when the outcome says
            await drop(bus, ref)
    except PallasError as error:
        log.warning("cannot withdraw a turn", extra={"turn": request.turn_id, "reason": error.message})
    else:
        log.info("withdrawn", extra={"turn": request.turn_id})


async def first_cancel(bus: Bus, ref: TurnRef) -> int | None:
    """The position of the turn's cancel if nobody had claimed the turn before, else None.

    Raises:
        Unavailable: the broker did not answer.
    """
    async for record in read(bus, TURN_LOG.name, ref.on(TURN_CLAIM.template), batch=1):
        first = TurnClaim.model_validate_json(record.data).claim
        return record.seq if isinstance(first, CancelRequested) else None
    return None


def _outcome(request: TurnRequested, attempt: int) -> TurnOutcome:
    return TurnOutcome(
        turn_id=request.turn_id,
        team=request.team,
        agent=request.agent,
        attempt=attempt,
        status="cancelled",
        code="cancelled",
        requested_at=request.requested_at,
        ended_at=utc_now(),
    )


async def cancel_begun(bus: Bus) -> None:
    """Cancel each turn that had begun when the log was lost, whoever follows it: it may have taken effect.

    Those were put into the queue before the log was made again, and delivered. One that was claimed since with its
    first delivery had not begun. Workers may not have noticed the loss, so a cancel tells them.

    Raises:
        Unavailable: the broker did not answer; the call may be repeated.
    """
    made = datetime.fromisoformat((await bus.api(f"STREAM.INFO.{TURN_LOG.name}", {}))["created"])
    delivered = dict[tuple[str, str], int]()
    async for record in read(bus, TURN_QUEUE.name, TURN_REQUESTED.template.filter(), batch=_READ_AT_ONCE):
        if record.time >= made:
            return
        try:
            request = TurnRequested.model_validate_json(record.data)
        except ValidationError:  # whoever pulls it keeps it as a dead letter
            continue
        ref, agent = TurnRef.of(request), (request.team, request.agent)
        if agent not in delivered:
            delivered[agent] = await _delivered(bus, *agent)
        if record.seq > delivered[agent]:
            continue
        last = (await claim_state(bus, ref)).claim
        if not isinstance(last, Claimed):
            await cancel_unclaimed(bus, ref, LOG_LOST, request)
        elif last.delivery is None or deliveries_of(last.delivery) > 1:
            await request_cancel(bus, ref, LOG_LOST, request)


async def _delivered(bus: Bus, team: str, agent: str) -> int:
    """The position of the turn of an agent that was delivered last; 0 if it never had a worker."""
    try:
        return (await queue_state(bus, team, agent)).delivered_position
    except Unavailable as error:
        if error.code != "no_stream":
            raise
        return 0


LOG_LOST = "The broker has lost the log of the turn."
"""The reason of the cancel of a turn that had begun."""

_READ_AT_ONCE = 32
"""Turns of the queue that are read at once: each may have a megabyte."""

EVERY = 1.0
"""Seconds between two looks. An agent has to fail at two of them: its next worker may be there in a moment."""

_UNKNOWN = "Whether the turn took effect is unknown; check before you retry."


@dataclass(slots=True, eq=False)
class WaitingTurn:
    """A turn that is followed here, inside the block; `given_up` says why it ended.

    `patience` is how many seconds it may wait without a worker; None: that is not known. It does not wait while the
    worker of its last claim is there.
    """

    turns: "WaitingTurns"
    request: TurnRequested
    position: int
    patience: float | None
    claim: Claimed | None = None
    given_up: Refusal | None = None
    looks: int = 0
    alone_since: float | None = None

    def __enter__(self) -> Self:
        self.turns.waiting[self] = None
        return self

    def __exit__(self, *_: object) -> None:
        del self.turns.waiting[self]

    def log_lost(self) -> None:
        """The turn is cancelled because its log was lost, here or by another process."""
        self.given_up = Refusal("worker_lost", f"{LOG_LOST} {_UNKNOWN}", turn_id=self.request.turn_id)


@dataclass
class WaitingTurns:
    """The turns that are followed here. `ended(outcome)` is called with the outcome of one that is given up."""

    bus: Bus
    presences: Table[WorkerPresence]
    ended: Callable[[TurnOutcome], None]
    waiting: dict[WaitingTurn, None] = field(default_factory=dict[WaitingTurn, None])

    async def keep(self) -> None:
        """Look for ever. What is known of workers while the broker is away does not count."""
        while True:
            await asyncio.sleep(EVERY)
            if self.bus.connected:
                await self.look()

    async def look(self) -> None:
        """Look once at all of them."""
        agents: dict[tuple[str, str], list[WaitingTurn]] = {}
        for turn in self.waiting:
            agents.setdefault((turn.request.team, turn.request.agent), []).append(turn)
        for (team, agent), turns in agents.items():
            hosted = any(f"{team}.{agent}" in worker.agents for worker in self.presences.values())
            await self._look_at(turns, hosted, failed_to_start(self.presences, team, agent))

    async def _look_at(self, turns: Iterable[WaitingTurn], hosted: bool, failed: Refusal | None) -> None:
        now = time.monotonic()
        for turn in turns:
            if hosted or (turn.claim is not None and turn.claim.worker in self.presences):
                turn.looks, turn.alone_since = 0, None
                continue
            turn.looks = turn.looks + 1 if failed is not None else 0
            turn.alone_since = now if turn.alone_since is None else turn.alone_since
            if failed is not None and turn.looks > 1:
                await self._give_up(turn, failed)
            elif turn.patience is not None and now - turn.alone_since > turn.patience:
                message = f"No worker of the agent was there for {turn.patience:g} s."
                await self._give_up(turn, Refusal("agent_failed", message, AGENT_RETRY_AFTER_MS))

    async def log_lost(self) -> None:
        """The log was lost, with what the turns had done that had begun: they end."""
        for turn in list(self.waiting):
            if turn.claim is not None:
                turn.log_lost()
                await self._give_up(turn, Refusal("worker_lost", LOG_LOST))
        if self.bus.service == TURN_LOG.owner:
            await cancel_begun(self.bus)

    async def queue_lost(self) -> None:
        """The queue was lost, with the turns that had not begun: they end."""
        why = Refusal("busy", "The broker has lost the turn before a worker had it. Try again.", AGENT_RETRY_AFTER_MS)
        for turn in list(self.waiting):
            if turn.claim is None:
                await self._give_up(turn, why)

    async def _give_up(self, turn: WaitingTurn, why: Refusal) -> None:
        ref, claim = TurnRef.of(turn.request), turn.claim
        try:
            if turn not in self.waiting:
                return
            if claim is None:
                cancelled = await cancel_unclaimed(self.bus, ref, why.message, turn.request)
            else:
                cancelled = await request_cancel(self.bus, ref, why.message, turn.request)
                why = Refusal("worker_lost", f"The worker was lost. {why.message} {_UNKNOWN}")
            if cancelled:
                turn.given_up = turn.given_up or replace(why, turn_id=ref.turn_id)
                log.warning("given up: nobody can execute the turn", extra=ref.facts)
                if claim is not None:  # whoever follows one that nobody had claimed withdraws it
                    await withdraw_turn(self.bus, turn.request, turn.position, self.ended, lost=claim.attempt)
        except PallasError as error:
            log.warning("a waiting turn cannot be given up yet", extra={**ref.facts, "reason": error.message})
