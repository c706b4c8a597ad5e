"""Execute a delivered turn: claim, run, conclude, settle.

A delivery is settled (ack, nak, reject) only at the end. If the worker dies before, the broker delivers the turn again.
An attempt runs within the agent's time limit.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from pallas_bus.connection import Bus
from pallas_bus.errors import is_cancelled, retry_while_unavailable
from pallas_bus.headers import continued, span_of
from pallas_contracts.agents import Limits
from pallas_contracts.catalog import TURN_LOG
from pallas_contracts.errors import NotFound, PallasError, Rejected, Superseded
from pallas_contracts.message import utc_now
from pallas_contracts.turns import TURN_ERRORS, CancelRequested, TurnRequested, turn_error
from pallas_runtime.telemetry import of_turn, tracer, tracing
from pallas_turns.attempts import Claimant, Conclude, NotYet, Over, Run, claim_turn
from pallas_turns.claims import TurnRef, claim_state
from pallas_turns.conclude import conclude_turn, kept_request, valid_outcome
from pallas_turns.content import whole_request
from pallas_turns.dead_letters import DeadLetters
from pallas_turns.events import PacedEvents
from pallas_turns.journal import NO_JOURNAL, Boundary, Journal
from pallas_turns.metrics import Metrics
from pallas_turns.queue import Delivery, about_queue
from pallas_turns.runtime import Failed, HostedAgent, Outcome, Turn
from pallas_turns.settle import NAK_DELAY, End, Running, RunningTurn
from pallas_turns.write import Keeping, TurnWriter

log = logging.getLogger(__name__)

HAND_BACK = 1.0
"""Seconds in which a turn that this worker could not finish is marked as handed back, not lost."""

CLEAN_UP = 4.0
"""Seconds that a turn has to clean up when this worker ends, before its delivery is nak'ed."""

_LOST_LOG = Failed(
    "worker_lost",
    "The broker has lost the log of the turn. Whether it took effect is unknown, so it is not executed again. Check "
    "before you retry.",
)
"""The end of a turn that was delivered before its log was lost."""


@dataclass(frozen=True)
class TakeTurn:
    """Executes delivered turns. `host` returns the hosted agent of `{team}.{agent}`, or None."""

    bus: Bus
    worker: str
    content_seconds: float
    host: Callable[[str], HostedAgent | None]
    running: Running
    letters: DeadLetters
    metrics: Metrics

    async def take_turn(self, key: str, request: TurnRequested, delivery: Delivery) -> None:
        """Execute a turn that was delivered, unless it is over already, and settle the delivery."""
        with of_turn(**TurnRef.of(request).facts, conversation=request.correlation, task=request.task):
            hosted = self.host(key)
            if hosted is None:
                await delivery.nak(NAK_DELAY)
            elif not self.running.has(request.turn_id):  # else it was delivered again to the worker that runs it
                about = about_queue(request, "process") | {"pallas.tool": request.tool}
                with tracer.start_as_current_span("take_turn", kind=SpanKind.CONSUMER, attributes=about):
                    await self.running.settle(delivery, self._attempt(hosted, request, delivery))

    async def _attempt(self, hosted: HostedAgent, request: TurnRequested, delivery: Delivery) -> End:
        """Claim, run and conclude."""
        started_at = utc_now()
        with self.running.taking(request.turn_id):
            claimant = Claimant(self.bus, self.worker, request, delivery.reply)
            remade = self.bus.remade.get(TURN_LOG.name)
            lost = _LOST_LOG if remade is not None and delivery.delivered > 1 and delivery.stored_at < remade else None
            match await claim_turn(claimant, hosted.definition, lost):
                case Run(attempt, fence, journal):
                    self.metrics.attempt_begins(request, attempt, started_at)
                    _trace_attempt(delivery, attempt, journal)
                    _log_start(request, attempt, journal)
                    writer = self._writer(hosted, request, attempt, fence)
                    return await self._execute(hosted, request, writer, journal, started_at)
                case Conclude() as verdict:
                    return await self._conclude(hosted, request, delivery, verdict, started_at)
                case Over():
                    return End.CONCLUDED
                case NotYet():
                    return End.HELD

    async def _execute(
        self, hosted: HostedAgent, request: TurnRequested, writer: TurnWriter, journal: Journal, started_at: datetime
    ) -> End:
        boundary = Boundary()
        task = asyncio.create_task(run_turn(hosted, request, writer, journal, boundary))
        running = RunningTurn(writer.ref, writer.fence, task, boundary)
        self.running.begin(running)
        try:
            outcome = await _outcome_of(running, writer)
            if outcome is None:
                await writer.hand_back()
                log.info("handed back", extra={"attempt": writer.attempt})
                return End.HANDED_BACK
            if isinstance(outcome, Failed):
                await _abandon(hosted, writer.ref)
            await conclude_turn(writer, request, outcome, started_at, self.metrics.turns.ended)
        except Superseded:
            state = await claim_state(self.bus, writer.ref)
            if not isinstance(state.claim, CancelRequested):
                log.warning("superseded", extra={"attempt": writer.attempt})
                return End.ELSEWHERE
            await _abandon(hosted, writer.ref)
            cancelled = self._writer(hosted, request, writer.attempt, state.seq, again=True)
            await conclude_turn(cancelled, request, None, started_at, self.metrics.turns.ended)
        return End.CONCLUDED

    async def _conclude(
        self, hosted: HostedAgent, request: TurnRequested, delivery: Delivery, verdict: Conclude, started_at: datetime
    ) -> End:
        """End a turn without executing it. One that has used up its attempts is first kept as a dead letter."""
        ref, attempt, why = TurnRef.of(request), verdict.attempt, verdict.why
        _trace_attempt(delivery, attempt)
        if why is not None and verdict.used_up:
            names, keep = (ref.team, ref.agent, ref.turn_id), self.keeping(hosted)
            await self.letters.keep(delivery, *names, "worker_lost", why.message, keep, attempts=attempt - 1)
        await _abandon(hosted, ref)
        writer = self._writer(hosted, request, attempt, verdict.fence, again=True)
        await conclude_turn(writer, request, why, started_at, self.metrics.turns.ended)
        return End.CONCLUDED

    def keeping(self, hosted: HostedAgent | None) -> Keeping:
        """How long content of turns of the agent is kept; None: it is not hosted here any more."""
        if hosted is None:
            return Limits().keeping(self.content_seconds)
        return hosted.definition.limits.keeping(self.content_seconds)

    def _writer(
        self, hosted: HostedAgent, request: TurnRequested, attempt: int, fence: int, *, again: bool = False
    ) -> TurnWriter:
        """The writer for a claim; `again`: an earlier claim of the turn may have written content."""
        return TurnWriter(
            self.bus,
            TurnRef.of(request),
            attempt,
            fence,
            keep=self.keeping(hosted),
            turn_timeout=hosted.definition.limits.turn_timeout,
            early_content=again or attempt > 1 or request.stowed is not None,
            kept=kept_request(request, hosted.definition),
        )


async def _abandon(hosted: HostedAgent, ref: TurnRef) -> None:
    if hosted.abandon is not None:
        await hosted.abandon(ref)


def _log_start(request: TurnRequested, attempt: int, journal: Journal) -> None:
    """Log that an attempt starts: with a warning if a worker was lost, but not if one has handed the turn back."""
    level = logging.DEBUG if attempt == 1 else logging.INFO if journal.handed_back else logging.WARNING
    event = "started" if attempt == 1 else "a further attempt started"
    log.log(level, event, extra={"attempt": attempt, "tool": request.tool})


def _trace_attempt(delivery: Delivery, attempt: int, journal: Journal = NO_JOURNAL) -> None:
    """Set the attempt on the span. A first attempt gets a span of the time in the queue, a later one a link to it."""
    trace.get_current_span().set_attribute("pallas.attempt", attempt)
    if not tracing():
        return
    if attempt > 1:
        if (first := span_of(journal.traced)).is_valid:
            trace.get_current_span().add_link(first, {"pallas.answers_taken_over": len(journal.answers)})
        return
    with continued(delivery.headers) as asked:
        put = min(int(delivery.stored_at.timestamp() * 1e9), time.time_ns())  # the broker's clock is another one
        tracer.start_span("wait_in_queue", asked, start_time=put).end()


async def _outcome_of(running: RunningTurn, writer: TurnWriter) -> Outcome | None:
    """Return the outcome of an attempt, which a cancel or a newer claim may stop; None if it stopped at a boundary.

    Raises:
        Superseded: this attempt does not have the turn any more.
    """
    try:
        return await asyncio.shield(running.task)
    except asyncio.CancelledError:
        if running.stopped:
            raise Superseded("the attempt does not have the turn any more") from None
        if running.handed_back and running.task.cancelled() and not is_cancelled():
            return None
        if running.task.cancelled() and not is_cancelled():
            log.error("the runtime cancelled itself")
            return Failed("internal", TURN_ERRORS["internal"])
        running.cancel()
        await asyncio.wait({running.task}, timeout=CLEAN_UP)
        if not running.task.done():
            log.warning("the turn did not end after its cancellation; its delivery is nak'ed", extra=running.ref.facts)
            raise
        with suppress(PallasError, TimeoutError):
            async with asyncio.timeout(HAND_BACK):
                await writer.hand_back()
        raise


_INTERNAL = TURN_ERRORS["internal"]


async def run_turn(
    hosted: HostedAgent, request: TurnRequested, writer: TurnWriter, journal: Journal, boundary: Boundary
) -> Outcome:
    """Execute the attempt and return how it ended. The time limit counts from the first attempt's claim.

    Raises:
        Superseded: the attempt does not have the turn any more.
        CancelledError: the turn was cancelled, or this worker stops.
    """
    with tracer.start_as_current_span("run_turn") as span:
        outcome = await _run(hosted, request, writer, journal, boundary)
        if isinstance(outcome, Failed):
            span.set_attribute("error.type", outcome.code)
            span.set_status(StatusCode.ERROR)
        return outcome


async def _run(
    hosted: HostedAgent, request: TurnRequested, writer: TurnWriter, journal: Journal, boundary: Boundary
) -> Outcome:
    seconds = hosted.definition.limits.turn_timeout
    limit = asyncio.timeout(seconds - journal.elapsed)
    ends = asyncio.get_running_loop().time() + seconds - journal.elapsed
    events = PacedEvents(writer)
    try:
        async with limit:
            whole = request if request.stowed is None else await _whole(writer.bus, request)
            if isinstance(whole, Failed):
                return whole
            remaining = ends - asyncio.get_running_loop().time()
            turn = _turn(whole, writer.attempt, remaining, journal, boundary)
            return valid_outcome(await hosted.runtime.run_turn(turn, events))
    except TimeoutError:
        if not limit.expired():
            log.exception("the runtime failed")
            return Failed("internal", _INTERNAL)
        return Failed("turn_timeout", f"The turn took longer than {seconds:g} s, the limit of {request.agent!r}.")
    except Superseded:
        raise
    except Exception:  # a runtime's bug must end the turn, not the worker
        log.exception("the runtime failed")
        return Failed("internal", _INTERNAL)
    finally:
        events.end()


async def _whole(bus: Bus, request: TurnRequested) -> TurnRequested | Failed:
    """The request with its offloaded content; retries while the broker is unavailable."""
    try:
        return await retry_while_unavailable(lambda: whole_request(bus, request), "read the arguments", deadline=None)
    except (NotFound, Rejected) as error:
        log.warning("the arguments cannot be read", extra={"reason": error.message})
        code = turn_error(error.code)
        return Failed(code, f"The turn was not executed. {TURN_ERRORS[code]}")


def _turn(request: TurnRequested, attempt: int, remaining: float, journal: Journal, boundary: Boundary) -> Turn:
    return Turn(
        turn_id=request.turn_id,
        team=request.team,
        agent=request.agent,
        tool=request.tool,
        arguments=request.arguments,
        attempt=attempt,
        remaining=remaining,
        client=request.client,
        principal=request.principal,
        operator=request.operator,
        depth=request.depth,
        correlation=request.correlation,
        task=request.task,
        input_responses=request.input_responses,
        request_state=request.request_state,
        model=request.model,
        allowance=request.allowance,
        journal=journal,
        boundary=boundary,
    )
