"""Whether a caller still follows a turn: who leaves one says so in the log, who stays or comes answers there.

Positions in the log decide, not clocks: whoever has left cancels the turn only while nobody has joined behind that, and
the broker checks it in the moment in which it stores the cancel.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager

from nats.aio.msg import Msg
from pydantic import ValidationError

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.polling import POLL_SECONDS, polling
from pallas_bus.transport.reads import read_last, read_newest
from pallas_bus.transport.streams import live_subject
from pallas_bus.transport.traces import trace_headers
from pallas_bus.turnlog.claims import (
    EXPECTED,
    EXPECTED_SUBJECT,
    claim_state,
    stored_outcome,
)
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.catalog import TURN_CLAIM, TURN_JOINED, TURN_LEFT, TURN_LOG
from pallas_contracts.errors import Conflict
from pallas_contracts.message import utc_now
from pallas_contracts.turns import CancelRequested, TurnClaim, TurnJoined, TurnLeft

log = logging.getLogger(__name__)


async def publish_joined(bus: Bus, ref: TurnRef) -> int:
    """Say that a caller follows the turn through this gateway. Returns the position of that.

    Raises:
        Unavailable: the broker did not answer.
    """
    said = TurnJoined(turn_id=ref.turn_id, team=ref.team, agent=ref.agent, gateway=bus.instance, at=utc_now())
    stored = await bus.put(ref.on(TURN_JOINED.template), said.model_dump_json().encode(), trace_headers())
    return stored.seq


async def publish_left(bus: Bus, ref: TurnRef) -> int:
    """Say that a caller has left the turn. Returns the position of that, to give to `cancel_if_alone`.

    Raises:
        Unavailable: the broker did not answer.
    """
    said = TurnLeft(turn_id=ref.turn_id, team=ref.team, agent=ref.agent, gateway=bus.instance, at=utc_now())
    stored = await bus.put(ref.on(TURN_LEFT.template), said.model_dump_json().encode(), trace_headers())
    return stored.seq


async def cancel_if_alone(bus: Bus, ref: TurnRef, left: int, reason: str) -> bool:
    """Write the turn's tombstone unless it has ended or somebody has joined it behind position `left`.

    Raises:
        Unavailable: the broker did not answer; nothing is cancelled, or it is and may be asked again.
    """
    joined = await read_newest(bus, TURN_LOG.name, ref.on(TURN_JOINED.template))
    if joined is not None and joined.seq > left:
        return False
    if isinstance((await claim_state(bus, ref)).claim, CancelRequested):
        return True
    if await stored_outcome(bus, ref) is not None:
        return False
    cancel = CancelRequested(reason=reason, at=utc_now())
    said = TurnClaim(turn_id=ref.turn_id, team=ref.team, agent=ref.agent, claim=cancel)
    headers = {
        EXPECTED: str(joined.seq if joined is not None else 0),
        EXPECTED_SUBJECT: ref.on(TURN_JOINED.template),
        "Nats-Msg-Id": f"{TURN_CLAIM.name}:{ref.turn_id}:alone",
    }
    try:
        await bus.put(ref.on(TURN_CLAIM.template), said.model_dump_json().encode(), trace_headers(headers))
    except Conflict:  # somebody has joined it this moment
        return False
    return True


@asynccontextmanager
async def watch_leaves(
    bus: Bus,
    left: Callable[[TurnRef, int], None],
    followed: Callable[[], Iterable[TurnRef]],
    *,
    every: float = POLL_SECONDS,
) -> AsyncGenerator[None]:
    """Call `left(address, position)` for every turn that a caller leaves, as that is stored.

    For the turns that are `followed` it is called again and again with the last leave: after a reconnect, and every so
    many seconds, for what may have been missed.
    """

    async def arrived(message: Msg) -> None:
        _hear(left, message.subject, message.data, int((message.headers or {})["Nats-Sequence"]))

    async def look() -> None:
        subjects = [ref.on(TURN_LEFT.template) for ref in followed()]
        for record in await read_last(bus, TURN_LOG.name, *subjects):
            _hear(left, record.subject, record.data, record.seq)

    subscription = await bus.subscribe(live_subject(TURN_LEFT.template.filter()), arrived)
    remove = bus.on_reconnect(look)
    try:
        async with polling(bus, look, every):
            yield
    finally:
        remove()
        await bus.unsubscribe(subscription)


def _hear(left: Callable[[TurnRef, int], None], subject: str, data: bytes, position: int) -> None:
    try:
        said = TurnLeft.model_validate_json(data)
    except ValidationError as error:
        log.warning("unreadable leave", extra={"subject": subject, "faults": error.error_count()})
    else:
        left(TurnRef(said.team, said.agent, said.turn_id), position)
