"""Two turns side by side, or one above the other in a narrow terminal."""

from tests.unit.cli.test_turn_timeline import NESTED, a_turn

from pallas_cli.turns.show import lines_side_by_side
from pallas_contracts.turns import Result


def test_two_turns_are_shown_side_by_side_in_a_wide_terminal() -> None:
    lines = lines_side_by_side(NESTED, NESTED, 160)
    assert all(len(line) <= 160 for line in lines)
    both = [line.split(" | ") for line in lines if " | " in line]
    assert all(left.rstrip() == right for left, right in both if right)
    assert "    0.700     1.000      research/search" in [right for _, right in both]
    assert lines[-1] == "The answers are equal."


def test_two_turns_are_shown_one_above_the_other_in_a_narrow_terminal() -> None:
    other = a_turn((0.1, [(0.2, Result(content=({"type": "text", "text": "else"},)))]), ends=0.3)
    lines = lines_side_by_side(NESTED, other, 80)
    assert not any(" | " in line for line in lines)
    assert lines[0].startswith("old: ")
    assert "else" in lines
    assert lines[-1] == "The answers differ."


def test_an_answer_without_content_cannot_be_compared() -> None:
    assert lines_side_by_side(NESTED, a_turn((0.1, []), ends=0.3), 160)[-1].startswith("The answers cannot be compared")
