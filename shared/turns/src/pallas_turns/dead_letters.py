"""Dead letters: stores, reads and removes turns that could not be handled, with the reason.

A letter has no content. Its original, the message as it was, is content and expires earlier. The name of a letter is
the id of its turn, or the position of its message in the queue if the turn's id cannot be read. So storing a letter can
be repeated: it makes no second one.
"""

import base64
import logging
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from pallas_bus.connection import Bus
from pallas_bus.reads import count_by_subject, read, read_last, read_newest
from pallas_contracts.catalog import DEAD_LETTER, DEAD_LETTERS, DEAD_ORIGINAL, TURN_REQUESTED
from pallas_contracts.contract import Contract
from pallas_contracts.errors import Rejected
from pallas_contracts.ids import Token
from pallas_contracts.message import Message, utc_now
from pallas_contracts.turns import DeadLetter, DeadOriginal, TurnError, TurnRequested
from pallas_turns.metrics import Metrics
from pallas_turns.queue import Delivery
from pallas_turns.write import Keeping

_MOST_FAULTS = 10


@dataclass(frozen=True, slots=True)
class KeptLetter:
    """A dead letter, and whether its original has not expired."""

    letter: DeadLetter
    has_original: bool


def dead_letter(
    delivery: Delivery, turn_id: str | None, *, team: str, agent: str, code: TurnError, reason: str, attempts: int = 0
) -> DeadLetter:
    """The dead letter of a delivered message. `reason` holds no content."""
    return DeadLetter(
        letter=letter_name(delivery, turn_id),
        team=team,
        agent=agent,
        turn_id=turn_id,
        subject=delivery.subject,
        code=code,
        reason=reason,
        attempts=attempts,
        at=utc_now(),
    )


def letter_name(delivery: Delivery, turn_id: str | None) -> str:
    """The name of the dead letter of a delivered message."""
    return turn_id or f"position-{delivery.position}"


def original_of(delivery: Delivery, *, team: str, agent: str, letter: str) -> DeadOriginal:
    """A delivered message as it is kept beside its dead letter."""
    data = base64.b64encode(delivery.data).decode()
    return DeadOriginal(letter=letter, team=team, agent=agent, headers=delivery.headers, data=data)


async def keep_letter(bus: Bus, letter: DeadLetter, delivery: Delivery, *, seconds: float) -> DeadLetter | None:
    """Store the delivered message for `seconds`, then its letter. None: it was stored before.

    If the message is too large to be stored, the letter has no original, and its reason says so.

    Raises:
        Unavailable: the broker did not acknowledge; the call may be repeated.
    """
    if await read_newest(bus, DEAD_LETTERS.name, _subject(DEAD_LETTER, letter)) is not None:
        return None
    original = original_of(delivery, team=letter.team, agent=letter.agent, letter=letter.letter)
    try:
        await _put(bus, DEAD_ORIGINAL, letter, original, {"Nats-TTL": f"{max(1, int(seconds))}s"})
    except Rejected as error:
        if error.code != "too_large":
            raise
        letter = letter.model_copy(update={"reason": f"{letter.reason}; its message is too large to be kept"})
    return letter if await _put(bus, DEAD_LETTER, letter, letter) else None


async def _put[M: Message](
    bus: Bus, contract: Contract[M], letter: DeadLetter, message: M, headers: dict[str, str] | None = None
) -> bool:
    """Store a letter or an original. False: the broker has it already."""
    identified = {"Nats-Msg-Id": f"{contract.name}:{letter.letter}", **(headers or {})}
    return not (await bus.put(_subject(contract, letter), message.model_dump_json().encode(), identified)).duplicate


async def read_letters(
    bus: Bus, *, since: datetime, team: str | None = None, agent: str | None = None
) -> list[KeptLetter]:
    """Read all letters that were stored after `since`, the oldest first.

    Raises:
        Unavailable: the broker does not answer.
    """
    ids = {name: value for name, value in (("team", team), ("agent", agent)) if value is not None}
    subject = DEAD_LETTER.template.filter(**ids)
    records = [record async for record in read(bus, DEAD_LETTERS.name, subject, since=since)]
    letters = [DeadLetter.model_validate_json(record.data) for record in records]
    originals = await count_by_subject(bus, DEAD_LETTERS.name, DEAD_ORIGINAL.template.filter(**ids))
    return [KeptLetter(each, _subject(DEAD_ORIGINAL, each) in originals) for each in letters]


async def read_letter(bus: Bus, name: str) -> tuple[DeadLetter, DeadOriginal | None] | None:
    """Read one letter and its original, None if that has expired. None: there is no such letter.

    Raises:
        Rejected: `name` is not a token (`bad_token`).
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
    """Decode the request in an original.

    Raises:
        Rejected: this release cannot decode it (`undecodable`); the message names the faults.
    """
    try:
        return TurnRequested.model_validate_json(base64.b64decode(original.data))
    except ValidationError as error:
        raise Rejected(faults_of(error), code="undecodable") from error


async def drop_letter(bus: Bus, letter: DeadLetter) -> None:
    """Remove a letter and its original.

    Raises:
        Unavailable: the broker does not answer; the call may be repeated.
    """
    await _purge(bus, _subject(DEAD_ORIGINAL, letter))
    await _purge(bus, _subject(DEAD_LETTER, letter))


async def forget_original(bus: Bus, turn_id: str) -> bool:
    """Remove the original of a turn's dead letter; the letter stays. False: there was none.

    Raises:
        Unavailable: the broker does not answer.
    """
    return await _purge(bus, DEAD_ORIGINAL.template.filter(letter=turn_id)) > 0


def turn_id_of(delivery: Delivery) -> str | None:
    """The id of the turn of an undecodable message, from its body or its message id; None if neither has it."""
    kind, _, identified = delivery.headers.get("Nats-Msg-Id", "").partition(":")
    with suppress(ValidationError):
        return _Named.model_validate_json(delivery.data).turn_id
    with suppress(ValidationError):
        return _Named(turn_id=identified).turn_id if kind == TURN_REQUESTED.name else None
    return None


class _Named(Message):
    """The only field that is read of an undecodable body."""

    turn_id: Token


def faults_of(error: ValidationError) -> str:
    """The faults of a message, each as `field: reason`, without values."""
    faults = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [f"{'.'.join(map(str, fault['loc'])) or 'message'}: {fault['msg']}" for fault in faults[:_MOST_FAULTS]]
    more = len(faults) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")


def _subject[M: Message](contract: Contract[M], letter: DeadLetter | DeadOriginal) -> str:
    return contract.template.subject(team=letter.team, agent=letter.agent, letter=letter.letter)


async def _purge(bus: Bus, subject_filter: str) -> int:
    """Remove the messages on the subjects that match; returns their number."""
    answer = await bus.api(f"STREAM.PURGE.{DEAD_LETTERS.name}", {"filter": subject_filter})
    return int(answer["purged"])


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class DeadLetters:
    """Stores letters."""

    bus: Bus
    metrics: Metrics

    async def keep(
        self,
        delivery: Delivery,
        team: str,
        agent: str,
        turn_id: str | None,
        code: TurnError,
        reason: str,
        keep: Keeping,
        *,
        attempts: int = 0,
    ) -> None:
        """Store a delivered message as a dead letter; repeating this stores no second one. `reason` holds no content.

        `keep` says how long its original is kept: as content of a turn that has failed.

        Raises:
            Unavailable: the broker does not answer.
        """
        letter = dead_letter(delivery, turn_id, team=team, agent=agent, code=code, reason=reason, attempts=attempts)
        stored = await keep_letter(self.bus, letter, delivery, seconds=keep["failed"])
        if stored is not None:
            self.metrics.letter_kept(team, agent, code)
            facts = {"letter": stored.letter, "code": code, "reason": stored.reason, "attempts": attempts}
            log.error("dead letter", extra=facts)
