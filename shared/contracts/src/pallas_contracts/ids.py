"""Names and ids that travel in subjects.

A token is `[a-z0-9_-]{1,64}`; everything that becomes part of a subject or a KV key is one. Turn ids are version 7
UUIDs in hex, so they sort by the time they were made.
"""

import hashlib
import re
import secrets
import time
from typing import Annotated, NewType

from pydantic import StringConstraints

from pallas_contracts.errors import Rejected

TOKEN_PATTERN = r"^[a-z0-9_-]{1,64}$"  # noqa: S105 - a pattern, not a secret
may_stand_in_subject = re.compile(TOKEN_PATTERN).fullmatch
"""Matches a token."""

type Token = Annotated[str, StringConstraints(pattern=TOKEN_PATTERN)]

TurnId = NewType("TurnId", str)


def is_token(value: str) -> bool:
    """Whether `value` may stand in a subject."""
    return may_stand_in_subject(value) is not None


def check_token(value: str, what: str) -> str:
    """Return `value` if it may stand in a subject.

    Raises:
        Rejected: naming `what` and the value, when it is not `[a-z0-9_-]{1,64}`.
    """
    if may_stand_in_subject(value) is None:
        raise Rejected(f"{what} {value!r} must be 1 to 64 characters of a-z, 0-9, '_' and '-'", code="bad_token")
    return value


def new_turn_id() -> TurnId:
    """Make a version 7 UUID (RFC 9562) as 32 hex digits: 48 bits of milliseconds, then 74 random bits."""
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | (0x7 << 76)
    value = value & ~(0x3 << 62) | (0x2 << 62)
    return TurnId(f"{value:032x}")


def child_id(parent: str, call: str) -> TurnId:
    """The id of the turn that a call inside `parent` makes; `call` is its place in the parent's journal."""
    return derived_turn_id(hashlib.sha256(f"{parent}/{call}".encode()).digest())


def replay_id(turn: str) -> TurnId:
    """The id of the first replay of a turn: whoever replays it, however often the command is run, it is one turn."""
    return derived_turn_id(hashlib.sha256(f"replay {turn}".encode()).digest())


def derived_turn_id(digest: bytes) -> TurnId:
    """The version 8 UUID (RFC 9562) of a digest's first 16 bytes: made again from the same, it is the same turn."""
    value = int.from_bytes(digest[:16])
    value = value & ~(0xF << 76) | (0x8 << 76)
    value = value & ~(0x3 << 62) | (0x2 << 62)
    return TurnId(f"{value:032x}")
