"""Prepared questions over the broker, as bytes, and what their answers must hold.

What is asked is the same for a service and for a floor beside it, so that the load process costs the same for both.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from typing import Any, Self

from nats.aio.msg import Msg

from pallas_bus.connection import Bus


class NothingLeft(Exception):
    """Every question has been asked."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Questions on a subject of the broker at `url`. A right answer holds `holds`."""

    url: str
    subject: str
    questions: Sequence[str]
    holds: str

    def to_json(self) -> dict[str, Any]:
        """As they travel to the load process."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """As they arrive there."""
        return cls(**fields)

    def asks(self, bus: Bus, callers: int, *, once: bool) -> list[Callable[[], Awaitable[Msg]]]:
        """What each caller repeats. Callers take questions from one row."""
        following = self.row(once=once)
        return [lambda: bus.request(self.subject, following())] * callers

    def row(self, *, once: bool) -> Callable[[], bytes]:
        """Gives one question after the other; `once` it ends with `NothingLeft`, else it begins anew."""
        bodies = [question.encode() for question in self.questions]
        left = iter(bodies) if once else cycle(bodies)

        def following() -> bytes:
            if (body := next(left, None)) is None:
                raise NothingLeft
            return body

        return following

    def fault_of(self, answer: Msg) -> str | None:
        """What is wrong with an answer, or None."""
        if self.holds.encode() in answer.data:
            return None
        return f"another answer: {answer.headers} {answer.data[:200]!r}"
