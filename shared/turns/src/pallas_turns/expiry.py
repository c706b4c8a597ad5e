"""Removes early content, which was written before its turn ended, when its time is over.

All gateways share one durable consumer of the outcomes, and each polls it once a second. An outcome
without `content_until` is acked. If `content_until` has passed, the turn's content is removed, and then the outcome is
acked. Any other outcome is nak'ed with the delay that is left. So the broker alone keeps the list of what is due: a
gateway needs no memory for it, any gateway can continue, and content that is kept for days delays no other. Each
outcome needs an ack of its own, since they are not finished in order.
"""

import asyncio
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import batched

from pydantic import ValidationError

from pallas_bus.connection import Bus, Msg
from pallas_bus.errors import for_each
from pallas_bus.headers import PULL_ENDED, continued
from pallas_bus.reads import read
from pallas_bus.streams import NANOSECONDS
from pallas_contracts.catalog import KEPT_REQUEST, TURN_CONTENT, TURN_LOG, TURN_OBJECTS, TURN_OUTCOME
from pallas_contracts.errors import PallasError, Unavailable
from pallas_contracts.message import utc_now
from pallas_contracts.turns import TurnOutcome
from pallas_turns.claims import TurnRef
from pallas_turns.content import drop, objects_of
from pallas_turns.dead_letters import forget_original
from pallas_turns.queue import make_consumer

log = logging.getLogger(__name__)

CONSUMER = "content-expiry"

POLL_SECONDS = 1.0
"""Seconds between two polls: content is removed at most that much late."""

BATCH = 200
_AT_ONCE = 16
"""Outcomes whose content is removed at the same time."""

_ANSWER_SECONDS = 2.0
"""Seconds after which a poll without an answer has failed: the answer was lost with the connection."""

ACK_WAIT = 10.0
"""Seconds after which outcomes that were delivered to a gateway that died are delivered to another."""

_CONFIG = {
    "durable_name": CONSUMER,
    "name": CONSUMER,
    "ack_policy": "explicit",
    "ack_wait": int(ACK_WAIT * NANOSECONDS),
    "deliver_policy": "all",
    "replay_policy": "instant",
    "max_deliver": -1,
    "max_ack_pending": -1,
}


async def expire_content(bus: Bus, *, every: float = POLL_SECONDS) -> None:
    """Remove the content that is due, every `every` seconds, for ever. The next poll is the retry of a failed one."""
    declared, outcomes = False, tuple[Msg]()
    while True:
        try:
            if not declared:
                await _declare(bus)
                declared = True
            outcomes = await _take(bus)
            await _settle(bus, outcomes)
        except PallasError as error:
            bus.rarely.warn(log, "content cannot be removed yet", reason=error.message)
            declared, outcomes = False, ()
        if len(outcomes) < BATCH:
            await asyncio.sleep(every)


async def _declare(bus: Bus) -> None:
    await make_consumer(bus, TURN_LOG, _CONFIG | {"filter_subject": TURN_OUTCOME.template.filter()})


async def _settle(bus: Bus, messages: Sequence[Msg]) -> None:
    """Remove the content that is due. Ack the outcomes that are finished, and nak the others until they are due.

    Raises:
        Unavailable: the broker does not answer; outcomes that are not settled are delivered again.
    """
    due: list[tuple[Msg, TurnRef]] = []
    for message in messages:
        outcome = _outcome(message)
        if outcome is None or outcome.content_until is None:
            await bus.send(message.reply, b"+ACK")
        elif (rest := (outcome.content_until - utc_now()).total_seconds()) > 0:
            await bus.send(message.reply, f'-NAK {{"delay": {int(rest * NANOSECONDS)}}}'.encode())
        else:
            due.append((message, TurnRef(outcome.team, outcome.agent, outcome.turn_id)))
    for some in batched(due, _AT_ONCE, strict=False):
        await asyncio.gather(*(_remove(bus, message, ref) for message, ref in some))


async def _remove(bus: Bus, message: Msg, ref: TurnRef) -> None:
    with continued(message.headers):
        await remove_content(bus, ref)
        await bus.send(message.reply, b"+ACK")
        log.debug("content removed", extra=ref.facts)


def _outcome(message: Msg) -> TurnOutcome | None:
    try:
        return TurnOutcome.model_validate_json(message.data)
    except ValidationError as error:
        log.warning("unreadable outcome", extra={"subject": message.subject, "faults": error.error_count()})
        return None


async def _take(bus: Bus) -> Sequence[Msg]:
    """The outcomes that the consumer has now, at most `BATCH`.

    Raises:
        Unavailable: there is no consumer, or the broker does not answer.
    """
    taken: list[Msg] = []
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def arrived(message: Msg) -> None:
        status = (message.headers or {}).get("Status")
        if status is None:
            taken.append(message)
        elif status not in PULL_ENDED and not done.done():
            done.set_exception(Unavailable(f"the outcomes cannot be read: {status}"))
        if (status is not None or len(taken) == BATCH) and not done.done():
            done.set_result(None)

    inbox = bus.client.new_inbox()
    subscription = await bus.subscribe(inbox, arrived)
    try:
        body = json.dumps({"batch": BATCH, "no_wait": True}).encode()
        await bus.send(f"$JS.API.CONSUMER.MSG.NEXT.{TURN_LOG.name}.{CONSUMER}", body, reply=inbox)
        async with asyncio.timeout(_ANSWER_SECONDS):
            await done
    except TimeoutError as error:
        raise Unavailable("the outcomes were not read in time") from error
    finally:
        await bus.unsubscribe(subscription)
    return taken


_NO_MESSAGE = 10043
"""The message has expired meanwhile."""


async def remove_content(bus: Bus, ref: TurnRef) -> None:
    """Remove the content of a turn, its kept request and its objects.

    Raises:
        Unavailable: the broker does not answer; the call may be repeated.
    """
    for contract in (TURN_CONTENT, KEPT_REQUEST):
        await bus.api(f"STREAM.PURGE.{TURN_LOG.name}", {"filter": ref.on(contract.template)})
    await drop(bus, ref)


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased of a turn: messages of content, parts of objects, and whether an original of a dead letter."""

    messages: int
    parts: int
    original: bool

    @property
    def anything(self) -> bool:
        """Whether anything was erased."""
        return bool(self.messages or self.parts or self.original)


async def erase_content(bus: Bus, ref: TurnRef) -> Erased:
    """Remove the same and the original of a dead letter; overwrite all of it on the broker's disk.

    Raises:
        Unavailable: the broker does not answer; the call may be repeated.
    """
    messages = 0
    for contract in (TURN_CONTENT, KEPT_REQUEST):
        messages += await _erase(bus, TURN_LOG.name, ref.on(contract.template))
    parts = await _erase(bus, TURN_OBJECTS.name, objects_of(ref))
    return Erased(messages, parts, await forget_original(bus, ref.turn_id))


async def _erase(bus: Bus, stream: str, subject: str) -> int:
    positions = [record.seq async for record in read(bus, stream, subject)]

    async def erase(position: int) -> None:
        try:
            await bus.api(f"STREAM.MSG.DELETE.{stream}", {"seq": position})
        except PallasError as error:
            if error.facts.get("err_code") != _NO_MESSAGE:
                raise

    await for_each(positions, erase, at_once=_AT_ONCE)
    return len(positions)
