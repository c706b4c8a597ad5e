"""Packs events into messages that do not exceed the broker's limit.

If events are too large for one message, they are split over several. An event that is too large by itself, or cannot be
encoded as JSON, is sent without its data. It must not be dropped: it has a number already, and a missing number would
be a gap for every reader.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pallas_bus.transport.errors import too_large
from pallas_contracts.turns import Answered, AnyEvent, InputRequired, Result

log = logging.getLogger(__name__)

LEFT_OUT = "[left out: too large, or no JSON]"
_MOST = 1000
"""Characters that are kept of a text in an event that is too large."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The events of one message, and its payload."""

    events: list[AnyEvent]
    payload: bytes


def batches(events: list[AnyEvent], write: Callable[[list[AnyEvent]], bytes], most: int) -> list[Batch]:
    """Pack the events, in order, into as few messages as possible of at most `most` bytes; `write` encodes events.

    Raises:
        Rejected: an answer is larger than that by itself (`too_large`). It cannot be sent without its data.
    """
    if not events:
        return []
    payload = _payload(events, write)
    if payload is not None and len(payload) <= most:
        return [Batch(events, payload)]
    if len(events) == 1:
        light = [lightened(events[0])]
        return [Batch(light, write(light))]
    middle = len(events) // 2
    return batches(events[:middle], write, most) + batches(events[middle:], write, most)


def _payload(events: list[AnyEvent], write: Callable[[list[AnyEvent]], bytes]) -> bytes | None:
    """The encoded events; None when one of them cannot be encoded."""
    try:
        return write(events)
    except ValueError:  # pydantic raises it for a value that is not JSON, and for half of a surrogate pair
        return None


def lightened(event: AnyEvent) -> AnyEvent:
    """The event without the data that may be at fault, marked by `LEFT_OUT`; raises as `batches` does."""
    if isinstance(event, Result | InputRequired):
        raise too_large("write the turn's answer")
    log.warning(
        "an event could not be encoded and is published without its data", extra={"event": event.type, "seq": event.seq}
    )
    if isinstance(event, Answered):
        return event.model_copy(update={"answer": None})
    return event.model_copy(update={name: _light(value) for name, value in event})


def _light(value: Any) -> Any:
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            whole = value.encode("utf-8", "replace").decode()
            return whole if len(whole) <= _MOST else f"{whole[:_MOST]} {LEFT_OUT}"
        case dict():
            return {"left_out": LEFT_OUT}
        case _:
            return LEFT_OUT
