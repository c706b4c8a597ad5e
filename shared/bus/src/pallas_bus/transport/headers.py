"""Headers of the broker: what it checks before it stores a message, how long it keeps it, and how a pull has ended."""

import math
from collections.abc import Mapping

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"
"""The position that the last message on a subject must have (0: there must be none), and that subject.

Without `EXPECTED_SUBJECT` it is the subject of the message itself.
"""

PULL_ENDED = frozenset({"404", "408"})
"""The status of a pull that ended without a message: there is none now, or there was none in time."""


def time_to_live(seconds: float) -> dict[str, str]:
    """The header for a time to live, which the broker takes in whole seconds."""
    return {"Nats-TTL": f"{max(1, math.ceil(seconds))}s"}


_LINE_BREAKS = str.maketrans("\r\n", "  ")


def encoded(headers: Mapping[str, str]) -> bytes:
    """The block of headers in a message. A line break becomes a space: it would begin another header or command."""
    lines = [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(
        ("NATS/1.0", *(line if line.isprintable() else line.translate(_LINE_BREAKS) for line in lines), "", "")
    ).encode()


def decoded(lines: bytes) -> dict[str, str]:
    """The headers of a block, without its first line."""
    pairs = (line.partition(":") for line in lines.decode("utf-8", "replace").split("\r\n"))
    return {name.strip(): value.strip() for name, colon, value in pairs if colon}
