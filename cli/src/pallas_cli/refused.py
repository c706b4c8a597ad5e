"""Expected errors of a command. `pallas` prints them to standard error, without a traceback, and exits with their code.

The class is the exit code: 1 refused or failed, 2 wrong usage or settings, 3 not reachable. With `--json` an error is
one JSON document.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import ClassVar

_NO_ADDRESS = "the address is not valid"


class Refused(Exception):
    """The platform refused, or the command failed. Each of `lines` describes one fault.

    `code` is the exit code. `word` is the code of the JSON document; `details` are the values behind the lines.
    """

    default_code: ClassVar[int] = 1
    default_word: ClassVar[str] = "refused"

    def __init__(
        self, *lines: str, code: int | None = None, word: str | None = None, details: Mapping[str, object] | None = None
    ) -> None:
        self.lines = lines
        self.code = self.default_code if code is None else code
        self.word = word or self.default_word
        self.details = dict(details or {})
        super().__init__("; ".join(lines))

    def as_json(self) -> dict[str, object]:
        """The error as one document."""
        more = {"lines": list(self.lines)} if len(self.lines) > 1 else {}
        return {"code": self.word, "message": "; ".join(self.lines), "details": {**more, **self.details}}


class WrongUsage(Refused):
    """The command line or a setting is wrong; nothing was asked of the platform."""

    default_code = 2
    default_word = "usage"


class NotReachable(Refused):
    """What the command needs does not answer. The same command may succeed later."""

    default_code = 3
    default_word = "unreachable"


def not_there(what: str, name: str, known: Iterable[str] = (), *, otherwise: str = "") -> Refused:
    """The error for a name that the platform does not know: with the known ones that are like it, else `otherwise`."""
    like = _like(name, known)
    details = {"did_you_mean": like} if like else None
    return Refused(f"there is no {what} {name!r}{_hint(like) or otherwise}", word="not_found", details=details)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: the known ones that are like it. Empty if none is."""
    return _hint(_like(name, known))


def _like(name: str, known: Iterable[str]) -> list[str]:
    return get_close_matches(name, sorted(known), n=3)


def _hint(like: list[str]) -> str:
    return f"; did you mean {' or '.join(repr(each) for each in like)}?" if like else ""


def not_reached(what: str, error: Exception | None = None) -> NotReachable:
    """The error for a service that does not answer, with the kind of the error if there is one."""
    why = f": {_kind(error)}" if error is not None else ""
    return NotReachable(f"{what} cannot be reached{why}; {where_to_look('--url')}")


def where_to_look(option: str) -> str:
    """What to check when something does not answer: the context that has its address, or `pallas up`."""
    from pallas_cli.contexts import active

    if (context := active()) is not None:
        return f"check the address of the context {context[0]!r}, or of {option}"
    return f"is `pallas up` running? ({option} and --data select another stack)"


def _kind(error: Exception) -> str:
    kind = type(error).__name__
    known = {"ConnectError": "no connection", **dict.fromkeys(("UnsupportedProtocol", "InvalidURL"), _NO_ADDRESS)}
    return "no answer in time" if kind.endswith("Timeout") else known.get(kind, kind)
