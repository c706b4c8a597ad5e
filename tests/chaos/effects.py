"""Recorded effects, a line each: key, turn, attempt; dashes if the tool does not know the latter two."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that happened outside of the platform. `turn` and `attempt` are None where only the key is known."""

    key: str
    turn: str | None = None
    attempt: int | None = None


def write_down(path: Path, key: str) -> None:
    """Append an effect of which only the key is known; it is on the disk when this returns."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, f"{key} - -\n".encode())
        os.fsync(handle)
    finally:
        os.close(handle)


def read_effects(path: Path) -> list[Effect]:
    """All effects in the order in which they happened."""
    if not path.exists():
        return []
    fields = [line.split() for line in path.read_text("utf-8").splitlines()]
    return [Effect(key) if turn == "-" else Effect(key, turn, int(attempt)) for key, turn, attempt in fields]
