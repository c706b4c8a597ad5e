"""The timeline of one turn as text."""

from pallas_bus.history.timeline import beginning, timeline
from pallas_bus.history.turns import TurnHistory


def lines_of(turn: TurnHistory) -> list[str]:
    """The timeline as text: seconds after the request, duration in seconds, description."""
    began = beginning(turn)
    lines = [f"{'after':>9} {'took':>9}"]
    for entry in timeline(turn):
        took = f"{entry.took:9.3f}" if entry.took is not None else " " * 9
        what = f"{entry.what}; taken over" if entry.taken_over else entry.what
        lines.append(f"{(entry.at - began).total_seconds():9.3f} {took}  {'  ' * entry.depth}{what}")
    return lines
