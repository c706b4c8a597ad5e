"""Execute a delivered turn: claim, run, conclude, settle.

A delivery is settled (ack, nak, reject) only at the end. If the worker dies before, the broker delivers the turn again.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import SpanKind
from pydantic import ValidationError

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.retry import is_cancelled
from pallas_bus.transport.traces import continued, span_of
from pallas_bus.turnlog.claims import claim_state
from pallas_bus.turnlog.dead_letters import letter_name, turn_id_of
from pallas_bus.turnlog.queue import Delivery, about_queue
from pallas_bus.turnlog.ref import TurnRef
from pallas_bus.turnlog.writer import TurnWriter, content_ttl_of
from pallas_contracts.errors import PallasError, Superseded
from pallas_contracts.message import utc_now
from pallas_contracts.turns import TURN_ERRORS, CancelRequested, TurnRequested
from pallas_executor.agent_runtime import Failed, HostedAgent, Outcome
from pallas_executor.boundary import Boundary
from pallas_executor.claim_turn import (
    Claimant,
    Conclude,
    NotYet,
    Over,
    Run,
    claim_turn,
)
from pallas_executor.conclude_turn import conclude_turn, kept_request
from pallas_executor.dead_letters import DeadLetters
from pallas_executor.end_undecodable import end_undecodable
from pallas_executor.journal import NO_JOURNAL, Journal
from pallas_executor.keep_failed import KeepFailed
from pallas_executor.metrics import Metrics
from pallas_executor.run_turn import run_turn
from pallas_executor.running import Running, RunningTurn
from pallas_runtime.logs import log_context
from pallas_runtime.telemetry import of_turn, tracer, tracing

log = logging.getLogger(__name__)

NAK_DELAY = 1.0
"""Seconds until a turn that cannot be executed now is delivered again, the first time.

A turn that another worker may still have is delivered at this interval until the presence of that worker expires.
"""

MAX_NAK_DELAY = 30.0
"""The longest such delay in seconds; it grows with every delivery."""

HAND_BACK = 1.0
"""Seconds in which a turn that this worker could not finish is marked as handed back, not lost."""

CLEAN_UP = 4.0
"""Seconds that a turn has to clean up when this worker ends, before its delivery is nak'ed."""


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
    keep: KeepFailed

    async def take_turn(self, key: str, delivery: Delivery) -> None:
        """Execute the delivered turn unless it is over already, and settle the delivery."""
        with continued(delivery.headers):
            try:
                request = TurnRequested.model_validate_json(delivery.data)
            except ValidationError as error:
                team, _, agent = key.partition(".")
                with log_context(team=team, agent=agent, turn=turn_id_of(delivery)):
                    await self._settle(self._end_undecodable(key, delivery, error), delivery)
                return
            with of_turn(**TurnRef.of(request).facts, conversation=request.correlation, task=request.task):
                await self._take(key, request, delivery)

    async def _take(self, key: str, request: TurnRequested, delivery: Delivery) -> None:
        hosted = self.host(key)
        if hosted is None:
            await delivery.nak(NAK_DELAY)
        elif not self.running.has(request.turn_id):  # else it was delivered again to the worker that runs it
            about = about_queue(request, "process") | {"pallas.tool": request.tool}
            with tracer.start_as_current_span("take_turn", kind=SpanKind.CONSUMER, attributes=about):
                await self._settle(self._attempt(hosted, request, delivery), delivery)

    async def _settle(self, taking: Coroutine[Any, Any, "_End"], delivery: Delivery) -> None:
        self.running.deliveries.add(delivery)
        try:
            end = await taking
        except asyncio.CancelledError:
            trace.get_current_span().set_attribute("pallas.settled", "nak")
            with suppress(PallasError):
                await delivery.nak()
            raise
        except PallasError as error:
            log.warning("cannot execute the turn now", extra={"reason": error.message})
            end = _End.LATER
        except Exception:
            log.exception("executing the turn failed", extra={"delivered": delivery.delivered})
            end = _End.LATER
        finally:
            self.running.deliveries.discard(delivery)
        trace.get_current_span().set_attribute("pallas.settled", end.value)
        with suppress(PallasError):
            match end:
                case _End.CONCLUDED:
                    await delivery.ack()
                case _End.HANDED_BACK:
                    await delivery.nak()
                case _End.HELD:
                    await delivery.nak(NAK_DELAY)
                case _End.LATER:
                    await delivery.nak(min(NAK_DELAY * delivery.delivered, MAX_NAK_DELAY))
                case _End.DEAD:
                    await delivery.reject()
                case _End.ELSEWHERE:
                    pass

    async def _end_undecodable(self, key: str, delivery: Delivery, error: ValidationError) -> "_End":
        """Store a message that cannot be decoded as a dead letter, and end its turn."""
        hosted = self.host(key)
        if hosted is not None:
            name = letter_name(delivery, turn_id_of(delivery))
            await self.keep.original(delivery, TurnRef(*hosted.names, name), hosted.definition)
        ended = await end_undecodable(self.bus, self.letters, self.worker, key, delivery, error)
        return _End.DEAD if ended else _End.LATER

    async def _attempt(self, hosted: HostedAgent, request: TurnRequested, delivery: Delivery) -> "_End":
        """Claim, run and conclude."""
        with self.running.taking(request.turn_id):
            return await self._claim_and_run(hosted, request, delivery)

    async def _claim_and_run(self, hosted: HostedAgent, request: TurnRequested, delivery: Delivery) -> "_End":
        ref, started_at = TurnRef.of(request), utc_now()
        match await claim_turn(Claimant(self.bus, self.worker, request, delivery.reply), hosted.definition):
            case Over():
                return _End.CONCLUDED
            case NotYet():
                return _End.HELD
            case Conclude(attempt, fence, why, used_up):
                _trace_attempt(delivery, attempt)
                if why is not None and used_up:
                    names = (ref.team, ref.agent, ref.turn_id)
                    await self.letters.keep(delivery, *names, "worker_lost", why.message, attempts=attempt - 1)
                await _abandon(hosted, ref)
                writer = self._writer(hosted, request, attempt, fence, again=True)
                failing = self._keeps(request, hosted)
                await conclude_turn(writer, request, why, started_at, self.metrics.turns.ended, failing)
                return _End.CONCLUDED
            case Run(attempt, fence, journal):
                self.metrics.attempt_begins(request, attempt, started_at)
                _trace_attempt(delivery, attempt, journal)
                _log_start(request, attempt, journal)
                writer = self._writer(hosted, request, attempt, fence)
                return await self._execute(hosted, request, writer, journal, started_at)

    async def _execute(
        self, hosted: HostedAgent, request: TurnRequested, writer: TurnWriter, journal: Journal, started_at: datetime
    ) -> "_End":
        boundary = Boundary()
        task = asyncio.create_task(run_turn(hosted, request, writer, journal, boundary))
        running = RunningTurn(writer.ref, writer.fence, task, boundary)
        self.running.begin(running)
        try:
            outcome = await _outcome_of(running, writer)
            if outcome is None:
                await writer.hand_back()
                log.info("handed back", extra={"attempt": writer.attempt})
                return _End.HANDED_BACK
            if isinstance(outcome, Failed):
                await _abandon(hosted, writer.ref)
            failing = self._keeps(request, hosted)
            await conclude_turn(writer, request, outcome, started_at, self.metrics.turns.ended, failing)
        except Superseded:
            state = await claim_state(self.bus, writer.ref)
            if not isinstance(state.claim, CancelRequested):
                log.warning("superseded", extra={"attempt": writer.attempt})
                return _End.ELSEWHERE
            await _abandon(hosted, writer.ref)
            cancelled = self._writer(hosted, request, writer.attempt, state.seq, again=True)
            await conclude_turn(cancelled, request, None, started_at, self.metrics.turns.ended)
        return _End.CONCLUDED

    def _keeps(self, request: TurnRequested, hosted: HostedAgent) -> Callable[[], Awaitable[None]]:
        return partial(self.keep.request, request, hosted.definition)

    def _writer(
        self, hosted: HostedAgent, request: TurnRequested, attempt: int, fence: int, *, again: bool = False
    ) -> TurnWriter:
        """The writer for a claim; `again`: an earlier claim of the turn may have written content."""
        return TurnWriter(
            self.bus,
            TurnRef.of(request),
            attempt,
            fence,
            content_ttl=content_ttl_of(self.content_seconds),
            turn_timeout=hosted.definition.limits.turn_timeout,
            early_content=again or attempt > 1 or request.stowed is not None,
            kept=kept_request(request, hosted.definition) if self.content_seconds else None,
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


class _End(Enum):
    """How a delivery ends."""

    CONCLUDED = "concluded"
    HANDED_BACK = "handed back"
    HELD = "held"
    LATER = "later"
    ELSEWHERE = "elsewhere"
    DEAD = "dead"
