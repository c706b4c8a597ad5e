"""What a check found."""

from dataclasses import dataclass
from typing import Literal

type State = Literal["ok", "warning", "wrong", "left out"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One result: what was checked, how it is, and what to do if it is not right."""

    check: str
    state: State
    said: str
    advice: str | None = None

    def as_json(self) -> dict[str, str | None]:
        """The finding as plain values."""
        return {"check": self.check, "state": self.state, "message": self.said, "advice": self.advice}


def ok(check: str, said: str) -> Finding:
    """Nothing to do."""
    return Finding(check, "ok", said)


def warning(check: str, said: str, advice: str) -> Finding:
    """It works, and may not stay so."""
    return Finding(check, "warning", said, advice)


def wrong(check: str, said: str, advice: str) -> Finding:
    """It does not work."""
    return Finding(check, "wrong", said, advice)


def left_out(check: str, said: str) -> Finding:
    """It does not apply here, or another fault hides it."""
    return Finding(check, "left out", said)
