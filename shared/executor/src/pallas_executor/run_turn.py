"""Execute one attempt with the agent's runtime, within the agent's time limit."""

import asyncio
import logging
from collections.abc import Awaitable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import StatusCode
from pydantic_core import from_json, to_json, to_jsonable_python

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.errors import retry_while_unavailable
from pallas_bus.turnlog.claims import last_position
from pallas_bus.turnlog.content import whole_request
from pallas_bus.turnlog.queue import ACK_WAIT, Delivery
from pallas_bus.turnlog.ref import TurnRef
from pallas_bus.turnlog.writer import TurnWriter
from pallas_contracts.errors import NotFound, PallasError, Rejected, Superseded
from pallas_contracts.turns import TURN_ERRORS, InputRequired, Result, TurnClaim, TurnRequested, turn_error
from pallas_contracts.valid import valid_json, valid_text
from pallas_executor.agent_runtime import (
    Completed,
    Failed,
    HostedAgent,
    NeedsInput,
    Outcome,
    Turn,
)
from pallas_executor.journal import Boundary, Journal
from pallas_executor.paced_events import PacedEvents
from pallas_runtime.telemetry import tracer

log = logging.getLogger(__name__)

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
            whole = await _whole(writer.bus, request)
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


def valid_outcome(outcome: Outcome) -> Outcome:
    """The outcome as JSON can hold it. An answer that it cannot hold is `invalid_answer`, and is not made again."""
    try:
        match outcome:
            case Completed(result):
                return Completed(_valid(result, ("content", "structured", "meta")))
            case NeedsInput(ask):
                return NeedsInput(_valid(ask, ("input_requests", "request_state")))
            case Failed():
                # Its data is for protocol errors only, and may be left out.
                return replace(outcome, message=valid_text(outcome.message), data=_valid_or_none(outcome.data))
    except ValueError as error:
        log.warning("the answer is no JSON", extra={"reason": str(error)})
        return Failed("invalid_answer", f"The agent's answer cannot be used: {error}.")


def _valid[Event: Result | InputRequired](event: Event, fields: tuple[str, ...]) -> Event:
    made = dict[str, Any]()
    for name in fields:
        value = getattr(event, name)
        try:
            valid = valid_value(value)
        except ValueError as error:
            raise ValueError(f"{name!r} is no JSON: {error}") from error
        if valid is not value:
            made[name] = tuple(valid) if isinstance(value, tuple) else valid
    return event.model_copy(update=made) if made else event


def _valid_or_none(data: Any) -> Any:
    try:
        return valid_value(data)
    except ValueError:
        return None


def valid_value(value: Any) -> Any:
    """The value with valid texts. Nearly every value is valid already, which is found out the fastest way.

    Raises:
        ValueError: JSON cannot hold it.
    """
    inside = [[[[value]]]]  # readers count the levels of the message around it
    try:
        from_json(to_json(inside, inf_nan_mode="constants"), allow_inf_nan=False)
    except ValueError:
        try:
            valid = valid_json(inside)
        except TypeError:
            valid = valid_json(to_jsonable_python(inside, inf_nan_mode="constants"))
        return valid[0][0][0][0]
    return value


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


NAK_DELAY = 1.0
"""Seconds until a turn that cannot be executed now is delivered again, the first time.

A turn that another worker may still have is delivered at this interval until the presence of that worker expires.
"""

MAX_NAK_DELAY = 30.0
"""The longest such delay in seconds; it grows with every delivery."""

IN_PROGRESS_SECONDS = ACK_WAIT / 5
"""Seconds between two progress acks of a delivery; the broker delivers the turn again after `ACK_WAIT` without one."""


class End(Enum):
    """How a delivery ends."""

    CONCLUDED = "concluded"
    HANDED_BACK = "handed back"
    HELD = "held"
    LATER = "later"
    ELSEWHERE = "elsewhere"
    DEAD = "dead"


@dataclass(slots=True)
class RunningTurn:
    """An attempt that runs here. `stopped`: superseded by a newer attempt or a cancel; `handed_back`: at a boundary."""

    ref: TurnRef
    fence: int
    task: asyncio.Task[Outcome]
    boundary: Boundary = field(default_factory=Boundary)
    stopped: bool = False
    handed_back: bool = False

    def stop(self) -> None:
        """End the attempt."""
        self.stopped = True
        self.cancel()

    def hand_back(self) -> None:
        """End the attempt, so that another worker goes on from its journal."""
        self.handed_back = True
        self.cancel()

    def cancel(self) -> None:
        """Cancel what runs. Steps can tell this from a cancellation that the agent itself has caused."""
        self.boundary.ending = True
        self.task.cancel()


@dataclass
class Running:
    """The attempts of this worker by turn, and all its deliveries.

    `claiming` maps turns that are being claimed to the position of the last claim or cancel received. A later claim may
    arrive before this worker knows that its own is stored.
    """

    turns: dict[str, RunningTurn] = field(default_factory=dict[str, RunningTurn])
    claiming: dict[str, int] = field(default_factory=dict[str, int])
    deliveries: set[Delivery] = field(default_factory=set[Delivery])
    draining: bool = False

    @contextmanager
    def taking(self, turn_id: str) -> Generator[None]:
        """Inside the block, receive claims of the turn, from before it is claimed here."""
        self.claiming[turn_id] = 0
        try:
            yield
        finally:
            self.claiming.pop(turn_id, None)
            self.turns.pop(turn_id, None)

    def has(self, turn_id: str) -> bool:
        """Whether this worker has the turn already."""
        return turn_id in self.claiming or turn_id in self.turns

    def begin(self, running: RunningTurn) -> None:
        """The claimed turn runs now; a later claim that was received meanwhile stops it."""
        turn_id = running.ref.turn_id
        self.turns[turn_id] = running
        if self.claiming.pop(turn_id, 0) > running.fence:
            running.stop()
        elif self.draining:
            running.boundary.stop(running.hand_back)

    def drain(self) -> None:
        """Give every turn back at its next boundary, also those that begin later."""
        self.draining = True
        for running in self.turns.values():
            running.boundary.stop(running.hand_back)

    def on_claim(self, claim: TurnClaim, seq: int) -> None:
        """Stop the turn of this claim or cancel if it runs here under an earlier claim."""
        if claim.turn_id in self.claiming:
            self.claiming[claim.turn_id] = max(seq, self.claiming[claim.turn_id])
        running = self.turns.get(claim.turn_id)
        if running is not None and seq > running.fence:
            running.stop()

    async def reread(self, bus: Bus) -> None:
        """Read what may have been missed: stop each attempt whose turn was claimed again or cancelled.

        Raises:
            Unavailable: the broker does not answer; the call may be repeated.
        """
        for running in list(self.turns.values()):
            if not running.task.done() and await last_position(bus, running.ref) > running.fence:
                running.stop()

    async def settle(self, delivery: Delivery, taking: Awaitable[End]) -> None:
        """Wait for the end of a delivery, and settle it. Progress acks keep it here meanwhile."""
        self.deliveries.add(delivery)
        try:
            end = await taking
        except asyncio.CancelledError:
            trace.get_current_span().set_attribute("pallas.settled", "nak")
            with suppress(PallasError):
                await delivery.nak()
            raise
        except PallasError as error:
            log.warning("cannot execute the turn now", extra={"reason": error.message})
            end = End.LATER
        except Exception:
            log.exception("executing the turn failed", extra={"delivered": delivery.delivered})
            end = End.LATER
        finally:
            self.deliveries.discard(delivery)
        trace.get_current_span().set_attribute("pallas.settled", end.value)
        with suppress(PallasError):
            match end:
                case End.CONCLUDED:
                    await delivery.ack()
                case End.HANDED_BACK:
                    await delivery.nak()
                case End.HELD:
                    await delivery.nak(NAK_DELAY)
                case End.LATER:
                    await delivery.nak(min(NAK_DELAY * delivery.delivered, MAX_NAK_DELAY))
                case End.DEAD:
                    await delivery.reject()
                case End.ELSEWHERE:
                    pass

    async def send_in_progress(self) -> None:
        """Send a progress ack for every delivery every few seconds, for ever."""
        while True:
            await asyncio.sleep(IN_PROGRESS_SECONDS)
            for delivery in list(self.deliveries):
                with suppress(PallasError):
                    await delivery.working()
