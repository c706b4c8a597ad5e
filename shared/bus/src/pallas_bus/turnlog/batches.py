"""Events that travel together, in messages that the broker takes.

What is too large for one message goes in several. An event that is too large by itself, or holds what is no JSON, says
instead what was left out of it: events are numbered before they are written, and a number that is in no message would
be a gap for every reader.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pallas_bus.transport.errors import too_large
from pallas_contracts.turns import AnyEvent, InputRequired, Result

log = logging.getLogger(__name__)

LEFT_OUT = "[left out: too large, or no JSON]"
_MOST = 1000
"""Characters that are left of a text in an event that is too large."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Events of one message, and its payload."""

    events: list[AnyEvent]
    payload: bytes


def batches(events: list[AnyEvent], write: Callable[[list[AnyEvent]], bytes], most: int) -> list[Batch]:
    """The events in their order, in messages of at most `most` bytes as `write` writes them; in one where that does.

    Raises:
        Rejected: one is an answer and by itself larger than that (`too_large`): nothing else can be said in its place.
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
    """The events as they are written; None when one of them cannot be."""
    try:
        return write(events)
    except ValueError:  # what pydantic raises for an object that is no JSON, or half a character
        return None


def lightened(event: AnyEvent) -> AnyEvent:
    """The event without what may be wrong with it, which it says; raises as `batches` does."""
    if isinstance(event, Result | InputRequired):
        raise too_large("write the turn's answer")
    log.warning(
        "an event could not be encoded and is published without its data", extra={"event": event.type, "seq": event.seq}
    )
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
