"""What a replay of many turns would do, in words."""

from collections.abc import Mapping
from typing import Any

from pallas_calls.replay_choice import Choice, Reason
from pallas_cli.turns.counts import counts_text, turns_text, whose_lines

_REASONS: Mapping[Reason, str] = {
    "replayed": "replayed already",
    "not_ended": "not ended yet",
    "child": "made by another turn, whose replay makes it again",
    "unknown_agent": "their agent no longer exists, or cannot be used",
    "unknown_model": "their agent has no model to replace",
    "not_allowed": "their caller may no longer use the agent",
    "content_expired": "their request has expired",
}


def preview_of(choice: Choice, rate: float) -> list[str]:
    """The lines: how many turns can be executed again, of which agents, for whom, and why others cannot."""
    turns, count = choice.turns, len(choice.turns)
    lines = [f"{turns_text(count)} to execute again{f', queued in {count / rate:.0f} s or more' if count else ''}"]
    lines += whose_lines(turns)
    if choice.effects:
        lines.append(f"  {len(choice.effects)} called tools that are not marked as safe, and call them again")
    for reason, left in choice.left_out.items():
        lines.append(f"  left out, {_REASONS[reason]}: {len(left)}{_states(choice) if reason == 'replayed' else ''}")
    return lines


def _states(choice: Choice) -> str:
    return f" ({counts_text(turn.state for turn in choice.replays.values())})"


def facts_of(choice: Choice) -> dict[str, Any]:
    """The same as plain values: numbers of turns."""
    return {
        "chosen": len(choice.turns),
        "effects": len(choice.effects),
        "left_out": {reason: len(left) for reason, left in choice.left_out.items()},
    }
