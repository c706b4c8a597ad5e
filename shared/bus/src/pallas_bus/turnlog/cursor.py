"""The cursor of a reader in a turn."""

from typing import NamedTuple


class Cursor(NamedTuple):
    """How far a turn has been read: an attempt and the number of an event in it; 0 means before the first."""

    attempt: int = 0
    event: int = 0


BEGINNING = Cursor()
"""Nothing has been read."""
