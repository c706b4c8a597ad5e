"""How far a reader has come in a turn."""

from typing import NamedTuple


class Cursor(NamedTuple):
    """How far a reader has come in a turn: an attempt, and the number of its last event that was told. 0 is none."""

    attempt: int = 0
    event: int = 0


BEGINNING = Cursor()
"""Nothing was told yet."""
