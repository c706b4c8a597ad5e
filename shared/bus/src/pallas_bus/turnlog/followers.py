"""Who follows a turn with an idempotency key: `turn.left` and `turn.joined` in the log.

When a caller leaves, its gateway publishes `turn.left`, and gateways where others follow the turn answer with
`turn.joined`. The order in the log decides, not a clock: the gateway cancels the turn only if no `turn.joined` is
behind its `turn.left`. The broker checks that when it stores the cancel.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager

from nats.aio.msg import Msg
from pydantic import ValidationError

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.headers import EXPECTED, EXPECTED_SUBJECT
from pallas_bus.transport.polling import POLL_SECONDS, polling
from pallas_bus.transport.reads import read_last, read_newest
from pallas_bus.transport.streams import live_subject
from pallas_bus.transport.traces import trace_headers
from pallas_bus.turnlog.claims import cancel_of, claim_state, stored_outcome
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.catalog import TURN_CLAIM, TURN_JOINED, TURN_LEFT, TURN_LOG
from pallas_contracts.errors import Conflict
from pallas_contracts.message import utc_now
from pallas_contracts.turns import CancelRequested, TurnJoined, TurnLeft, TurnRequested

log = logging.getLogger(__name__)


async def publish_joined(bus: Bus, ref: TurnRef) -> int:
    """Publish that a caller follows the turn through this gateway. Returns the position of the message in the log.

    Raises:
        Unavailable: the broker did not answer.
    """
    joined = TurnJoined(turn_id=ref.turn_id, team=ref.team, agent=ref.agent, gateway=bus.instance, at=utc_now())
    stored = await bus.put(ref.on(TURN_JOINED.template), joined.model_dump_json().encode(), trace_headers())
    return stored.seq


async def publish_left(bus: Bus, ref: TurnRef) -> int:
    """Publish that a caller has left the turn. Returns the position of the message, for `cancel_if_alone`.

    Raises:
        Unavailable: the broker did not answer.
    """
    left = TurnLeft(turn_id=ref.turn_id, team=ref.team, agent=ref.agent, gateway=bus.instance, at=utc_now())
    stored = await bus.put(ref.on(TURN_LEFT.template), left.model_dump_json().encode(), trace_headers())
    return stored.seq


async def cancel_if_alone(bus: Bus, request: TurnRequested, left: int, reason: str) -> bool:
    """Cancel the turn, unless it has ended or somebody has joined it behind the position `left`.

    Returns whether it is cancelled, also when it had been cancelled before.

    Raises:
        Unavailable: the broker did not answer. The turn may be cancelled; the call may be repeated.
    """
    ref = TurnRef.of(request)
    joined = await read_newest(bus, TURN_LOG.name, ref.on(TURN_JOINED.template))
    if joined is not None and joined.seq > left:
        return False
    last = (await claim_state(bus, ref)).claim
    if isinstance(last, CancelRequested):
        return True
    if await stored_outcome(bus, ref) is not None:
        return False
    claim = cancel_of(ref, reason, request)
    headers = {
        EXPECTED: str(joined.seq if joined is not None else 0),
        EXPECTED_SUBJECT: ref.on(TURN_JOINED.template),
        "Nats-Msg-Id": f"{TURN_CLAIM.name}:{ref.turn_id}:alone",
    }
    try:
        await bus.put(ref.on(TURN_CLAIM.template), claim.model_dump_json().encode(), trace_headers(headers))
    except Conflict:  # somebody has joined it meanwhile
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
    """Call `left(ref, position)` for every `turn.left` as it is stored, inside the block.

    After a reconnect and every `every` seconds it is also called with the last leave of each turn that is `followed`:
    its notification may be lost. So it may be called more than once for one leave.
    """

    async def arrived(message: Msg) -> None:
        headers = message.headers or {}
        _on_leave(left, headers["Nats-Subject"], message.data, int(headers["Nats-Sequence"]))

    async def poll() -> None:
        subjects = {ref.on(TURN_LEFT.template) for ref in followed()}
        for record in await read_last(bus, TURN_LOG.name, *subjects):
            _on_leave(left, record.subject, record.data, record.seq)

    subscription = await bus.subscribe(live_subject(TURN_LEFT.template.filter()), arrived)
    remove = bus.on_reconnect(poll)
    try:
        async with polling(bus, poll, every):
            yield
    finally:
        remove()
        await bus.unsubscribe(subscription)


def _on_leave(left: Callable[[TurnRef, int], None], subject: str, data: bytes, position: int) -> None:
    try:
        leave = TurnLeft.model_validate_json(data)
    except ValidationError as error:
        log.warning("unreadable leave", extra={"subject": subject, "faults": error.error_count()})
    else:
        left(TurnRef(leave.team, leave.agent, leave.turn_id), position)
