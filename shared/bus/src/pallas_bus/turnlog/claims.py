"""Claims and cancels of a turn: the last message on its claim subject decides who may act for the turn.

A claim names the position of the claim that it supersedes. The broker refuses it if that is not the last one any more.
A cancel is written behind any claim, and no claim may follow a cancel.
"""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from nats.aio.msg import Msg
from pydantic import ValidationError

from pallas_bus.transport.access import Access
from pallas_bus.transport.connection import Bus, connect_when_possible
from pallas_bus.transport.headers import EXPECTED, trace_headers
from pallas_bus.transport.reads import newest_position, read_last, read_newest
from pallas_bus.transport.streams import live_subject
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.agents import WorkerAlive
from pallas_contracts.catalog import TURN_CLAIM, TURN_LOG, TURN_OUTCOME, WORKER, WORKER_ALIVE
from pallas_contracts.errors import Conflict, Unavailable
from pallas_contracts.message import utc_now
from pallas_contracts.turns import CancelRequested, Claimed, TurnAsked, TurnClaim, TurnOutcome, TurnRequested

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


HEARTBEAT_SECONDS = 0.25
"""Seconds between two heartbeats."""


@asynccontextmanager
async def send_heartbeats(access: Access | str, worker: str, *, service: str = WORKER) -> AsyncGenerator[asyncio.Event]:
    """Send heartbeats of `worker`, a replica of `service`, inside the block.

    Yields an event that is set when an error has ended them.
    """
    stop, lost, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    sending = runner.get_loop()

    def run() -> None:
        try:
            with runner:
                runner.run(_send_until(stop, access, worker, service))
        except Exception:
            log.exception("sending heartbeats failed")
            loop.call_soon_threadsafe(lost.set)

    thread = threading.Thread(target=run, name="heartbeats", daemon=True)
    thread.start()
    try:
        yield lost
    finally:
        with suppress(RuntimeError):  # it has ended
            sending.call_soon_threadsafe(stop.set)
        await asyncio.to_thread(thread.join, 2 * HEARTBEAT_SECONDS)


async def _send_until(stop: asyncio.Event, access: Access | str, worker: str, service: str) -> None:
    subject = WORKER_ALIVE.template.subject(worker=worker)
    heartbeat = WorkerAlive(worker=worker).model_dump_json().encode()
    while not stop.is_set():
        async with connect_when_possible(access, service, instance=f"{worker}-heartbeats") as bus:
            while not stop.is_set() and not bus.closed.is_set():
                with suppress(Unavailable):
                    await bus.send(subject, heartbeat)
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), HEARTBEAT_SECONDS)


@asynccontextmanager
async def watch_heartbeats(bus: Bus, on_heartbeat: Callable[[str], None]) -> AsyncGenerator[None]:
    """Call `on_heartbeat(worker)` for every heartbeat of every worker, inside the block."""

    def arrived(message: Msg) -> None:
        on_heartbeat(message.subject.rpartition(".")[2])

    subscription = await bus.listen(WORKER_ALIVE.template.filter(), arrived)
    try:
        yield
    finally:
        await bus.unsubscribe(subscription)
