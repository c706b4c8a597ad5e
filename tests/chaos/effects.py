"""Recorded effects, a line each: key, turn, attempt; dashes if the tool does not know the latter two.

The key is that of the caller, with the name of the call behind a slash if the turn makes several: `k12/3.1`. Calls of a
model and of tools without an effect are recorded in the same way, in a file of their own.
"""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that happened outside of the platform. `turn` and `attempt` are None where only the key is known."""

    key: str
    turn: str | None = None
    attempt: int | None = None

    @property
    def caller(self) -> str:
        """The key of the caller."""
        return self.key.partition("/")[0]

    @property
    def call(self) -> str:
        """The name of the call in its turn (see `Answered`), if it has one."""
        return self.key.partition("/")[2]


def write_down(path: Path, key: str, turn: str = "-", attempt: str = "-") -> None:
    """Append an effect; it is on the disk when this returns."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{key} {turn} {attempt}\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def read_effects(path: Path) -> list[Effect]:
    """All effects in the order in which they happened."""
    if not path.exists():
        return []
    fields = [line.split() for line in path.read_text("utf-8").splitlines()]
    return [Effect(key) if turn == "-" else Effect(key, turn, int(attempt)) for key, turn, attempt in fields]
