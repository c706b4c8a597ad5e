"""What a command is about to do to many turns, in words."""

from collections import Counter
from collections.abc import Iterable, Sequence

from pallas_bus.history.turns import TurnHistory

_MOST = 8
"""Names in one line."""


def turns_text(count: int) -> str:
    """`1 turn`, `2 turns`."""
    return f"{count} turn{'s' if count != 1 else ''}"


def whose_lines(turns: Sequence[TurnHistory]) -> list[str]:
    """How many turns each agent and each caller has; no lines without turns."""
    if not turns:
        return []
    agents = counts_text(f"{turn.team}/{turn.agent}" for turn in turns)
    return [f"  of: {agents}", f"  for: {counts_text(turn.caller or 'unknown' for turn in turns)}"]


def counts_text(names: Iterable[str]) -> str:
    """How often each name is there, the most frequent first."""
    counted = Counter(names).most_common()
    shown = ", ".join(f"{name} {count}" for name, count in counted[:_MOST])
    return shown + (f" and {len(counted) - _MOST} more" if len(counted) > _MOST else "")
