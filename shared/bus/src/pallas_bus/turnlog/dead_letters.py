"""Turns that could not be handled: kept with their reason, read, and dropped.

A letter has no content. Its original, the message as it was, is content and expires earlier. A letter is named after
its turn, or after its message's place in the queue when the message does not tell its turn: whatever is done twice
because a worker died in between makes no second letter.
"""

import base64
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import read, read_last, read_newest
from pallas_bus.turnlog.queue import Delivery
from pallas_contracts.catalog import DEAD_LETTER, DEAD_LETTERS, DEAD_ORIGINAL, TURN_REQUESTED
from pallas_contracts.contract import Contract
from pallas_contracts.errors import Rejected
from pallas_contracts.ids import Token
from pallas_contracts.message import Message, utc_now
from pallas_contracts.turns import DeadLetter, DeadOriginal, TurnRequested

_MOST_FAULTS = 10


@dataclass(frozen=True, slots=True)
class KeptLetter:
    """A dead letter, and whether its original is still there."""

    letter: DeadLetter
    has_original: bool


def dead_letter(
    delivery: Delivery, turn_id: str | None, *, team: str, agent: str, code: str, reason: str, attempts: int = 0
) -> DeadLetter:
    """The letter that a delivered message becomes; `code` is one of `TURN_ERRORS`, `reason` holds no content."""
    return DeadLetter(
        letter=turn_id or f"position-{delivery.position}",
        team=team,
        agent=agent,
        turn_id=turn_id,
        subject=delivery.subject,
        code=code,
        reason=reason,
        attempts=attempts,
        at=utc_now(),
    )


async def keep_letter(bus: Bus, letter: DeadLetter, delivery: Delivery, *, content_seconds: float) -> DeadLetter | None:
    """Store the delivered message, for `content_seconds`, and then its letter; None when that had been done before.

    A message that is too large to be kept becomes a letter without an original, which says so.

    Raises:
        Unavailable: the broker did not confirm; the call may be repeated.
    """
    if await read_newest(bus, DEAD_LETTERS.name, _subject(DEAD_LETTER, letter)) is not None:
        return None
    data = base64.b64encode(delivery.data).decode()
    original = DeadOriginal(
        letter=letter.letter, team=letter.team, agent=letter.agent, headers=delivery.headers, data=data
    )
    try:
        await _put(bus, DEAD_ORIGINAL, letter, original, {"Nats-TTL": f"{max(1, int(content_seconds))}s"})
    except Rejected as error:
        if error.code != "too_large":
            raise
        letter = letter.model_copy(update={"reason": f"{letter.reason}; its message is too large to be kept"})
    return letter if await _put(bus, DEAD_LETTER, letter, letter) else None


async def _put[M: Message](
    bus: Bus, contract: Contract[M], letter: DeadLetter, said: M, headers: dict[str, str] | None = None
) -> bool:
    """Store one of the two; False when the broker has it already."""
    identified = {"Nats-Msg-Id": f"{contract.name}:{letter.letter}", **(headers or {})}
    return not (await bus.put(_subject(contract, letter), said.model_dump_json().encode(), identified)).duplicate


async def read_letters(
    bus: Bus, *, since: datetime, team: str | None = None, agent: str | None = None
) -> list[KeptLetter]:
    """Read all letters that were kept after `since`, the oldest first.

    Raises:
        Unavailable: the broker does not answer.
    """
    ids = {name: value for name, value in (("team", team), ("agent", agent)) if value is not None}
    subject = DEAD_LETTER.template.filter(**ids)
    records = [record async for record in read(bus, DEAD_LETTERS.name, subject, since=since)]
    letters = [DeadLetter.model_validate_json(record.data) for record in records]
    originals = await _subjects(bus, DEAD_ORIGINAL.template.filter(**ids))
    return [KeptLetter(letter, _subject(DEAD_ORIGINAL, letter) in originals) for letter in letters]


async def read_letter(bus: Bus, name: str) -> tuple[DeadLetter, DeadOriginal | None] | None:
    """Read one letter with its original, which may be gone; None when there is no such letter.

    Raises:
        Rejected: that cannot be the name of a letter.
        Unavailable: the broker does not answer.
    """
    subjects = [contract.template.filter(letter=name) for contract in (DEAD_LETTER, DEAD_ORIGINAL)]
    letter, original = None, None
    for record in await read_last(bus, DEAD_LETTERS.name, *subjects):
        if DEAD_LETTER.template.parse(record.subject):
            letter = DeadLetter.model_validate_json(record.data)
        else:
            original = DeadOriginal.model_validate_json(record.data)
    return (letter, original) if letter is not None else None


def request_of(original: DeadOriginal) -> TurnRequested:
    """What the original asks for, when this version can read it.

    Raises:
        Rejected: it cannot (`undecodable`), and the faults are these.
    """
    try:
        return TurnRequested.model_validate_json(base64.b64decode(original.data))
    except ValidationError as error:
        raise Rejected(faults_of(error), code="undecodable") from error


async def drop_letter(bus: Bus, letter: DeadLetter) -> None:
    """Remove a letter and its original, for good.

    Raises:
        Unavailable: the broker does not answer; the call may be repeated.
    """
    await _purge(bus, _subject(DEAD_ORIGINAL, letter))
    await _purge(bus, _subject(DEAD_LETTER, letter))


async def forget_original(bus: Bus, turn_id: str) -> bool:
    """Remove what a turn's dead letter holds of its content; the letter stays. False when there was nothing.

    Raises:
        Unavailable: the broker does not answer.
    """
    return await _purge(bus, DEAD_ORIGINAL.template.filter(letter=turn_id)) > 0


def turn_id_of(delivery: Delivery) -> str | None:
    """The turn that a message belongs to that could not be decoded, as far as its body or its message id tell."""
    kind, _, identified = delivery.headers.get("Nats-Msg-Id", "").partition(":")
    with suppress(ValidationError):
        return _Named.model_validate_json(delivery.data).turn_id
    with suppress(ValidationError):
        return _Named(turn_id=identified).turn_id if kind == TURN_REQUESTED.name else None
    return None


class _Named(Message):
    """All that is wanted of a body."""

    turn_id: Token


def faults_of(error: ValidationError) -> str:
    """What is wrong with a message, each as `field: reason`, without any value."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    told = [f"{'.'.join(map(str, fault['loc'])) or 'message'}: {fault['msg']}" for fault in faults[:_MOST_FAULTS]]
    more = len(faults) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")


def _subject[M: Message](contract: Contract[M], letter: DeadLetter) -> str:
    return contract.template.subject(team=letter.team, agent=letter.agent, letter=letter.letter)


async def _subjects(bus: Bus, subject_filter: str) -> set[str]:
    """The subjects with something on them, of those that match."""
    found: set[str] = set()
    while True:
        body = {"subjects_filter": subject_filter, "offset": len(found)}
        info = await bus.api(f"STREAM.INFO.{DEAD_LETTERS.name}", body)
        page = set(info["state"].get("subjects") or ())
        found |= page
        if not page or len(found) >= info.get("total", 0):
            return found


async def _purge(bus: Bus, subject_filter: str) -> int:
    """Remove what is stored there; returns how much that was."""
    answer = await bus.api(f"STREAM.PURGE.{DEAD_LETTERS.name}", {"filter": subject_filter})
    return int(answer["purged"])
