"""Publishes recorded messages again, to another subject, with headers that name their origin.

They must not be mistaken for new messages. So a target is refused if a stream stores it, or if Pallas subscribes to it.
"""

from dataclasses import dataclass
from datetime import UTC

from pallas_bus.history.recorded import Recorded
from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import Record
from pallas_bus.transport.subjects import ROOT, overlap
from pallas_contracts.catalog import BUCKETS, STREAMS
from pallas_contracts.errors import Rejected

PREFIX = f"{ROOT}replayed"
STREAM, SUBJECT, POSITION, TIME = "Pallas-Stream", "Pallas-Subject", "Pallas-Position", "Pallas-Time"
"""The headers that name where and when a message was recorded; the time is ISO 8601."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target of replayed messages: one subject, or a prefix if it ends in `.>`."""

    text: str = f"{PREFIX}.>"

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Parse and check a target.

        Raises:
            Rejected: it is not a subject to publish to, or messages on it would be stored or acted on.
        """
        parts = text.split(".")
        if not all(parts) or any(character.isspace() for character in text):
            raise Rejected(f"cannot replay to {text!r}: a part of the subject is empty or has a space")
        if parts[0] == ">" or any(set(part) & {"*", ">"} for part in parts[:-1]) or "*" in parts[-1]:
            raise Rejected(f"cannot replay to {text!r}: it must be one subject, or a prefix that ends in '.>'")
        if text.startswith(("$", "_INBOX")):
            raise Rejected(f"cannot replay to {text!r}: such subjects are reserved for the broker")
        streams = (each for stream in STREAMS for each in stream.subjects)
        kept = (*streams, *(f"$KV.{it.name}.>" for it in BUCKETS))
        if any(overlap(text, each) for each in kept):
            raise Rejected(f"cannot replay to {text!r}: it would be stored as if it had happened again")
        if overlap(text, "pallas.>") and not text.startswith(f"{PREFIX}."):
            raise Rejected(f"cannot replay to {text!r}: Pallas subscribes there; use one below {PREFIX} or your own")
        return cls(text)

    def subject(self, original: str) -> str:
        """The subject for a message that was recorded on `original`."""
        return f"{self.text[:-1]}{original.split('.', 2)[2]}" if self.text.endswith(".>") else self.text


async def check_unstored(bus: Bus, target: Target) -> None:
    """Check that no stream of the broker stores messages on the target.

    Raises:
        Rejected: a stream does; the message names it.
        Unavailable: the broker does not answer.
    """
    answer = await bus.api("STREAM.NAMES", {"subject": target.text})
    if names := answer.get("streams"):
        raise Rejected(f"cannot replay to {target.text!r}: the stream {names[0]} would store it as if it had happened")


async def publish_again(bus: Bus, target: Target, recorded: Recorded) -> None:
    """Publish a recorded message to the target: the same body, and headers that also name its origin.

    Raises:
        Rejected: with these headers it is larger than the broker accepts (`too_large`).
        Unavailable: the connection is closed.
    """
    record = recorded.record
    await bus.send(target.subject(record.subject), record.data, record.headers | origin(recorded.stream, record))


def origin(stream: str, record: Record) -> dict[str, str]:
    """The headers of a replayed message that name its origin."""
    return {
        STREAM: stream,
        SUBJECT: record.subject,
        POSITION: str(record.seq),
        TIME: record.time.astimezone(UTC).isoformat(),
    }
