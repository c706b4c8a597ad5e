"""The errors that cross a boundary between parts of Pallas.

A code is a stable machine word; the message is a sentence for a person and never holds a secret or prompt text.
Each boundary (bus verdict, HTTP status, MCP result) maps the kinds below once, and walks `__cause__` chains
with `find_error`, so a wrapped error keeps its meaning.
"""

from typing import ClassVar


class PallasError(Exception):
    """An error that is reported to the other side of a boundary.

    `code` is the stable word callers may branch on, `facts` are the values behind the sentence.
    """

    kind: ClassVar[str] = "internal"
    default_code: ClassVar[str] = "internal"

    def __init__(self, message: str, *, code: str | None = None, **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.facts = facts


class Rejected(PallasError):
    """The input can never be accepted as it is; sending it again changes nothing."""

    kind = "rejected"
    default_code = "invalid"


class NotFound(PallasError):
    """What was asked for does not exist."""

    kind = "not_found"
    default_code = "not_found"


class Denied(PallasError):
    """The caller is not allowed to do this."""

    kind = "denied"
    default_code = "denied"


class Conflict(PallasError):
    """The present state contradicts the request."""

    kind = "conflict"
    default_code = "conflict"


class Superseded(Conflict):
    """An attempt at a turn does not have the turn any more: a newer one does, or the turn was cancelled."""

    default_code = "superseded"


class Unavailable(PallasError):
    """Something that is needed is unavailable now; a retry may succeed."""

    kind = "unavailable"
    default_code = "unavailable"


class BadGateway(PallasError):
    """A server of others that is needed refuses, or answers what cannot be used."""

    kind = "bad_gateway"
    default_code = "bad_gateway"


def find_error(error: BaseException) -> PallasError | None:
    """Return the outermost `PallasError` in the cause chain of `error`, or None."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        if isinstance(current, PallasError):
            return current
        seen.add(id(current))
        current = current.__cause__
    return None
