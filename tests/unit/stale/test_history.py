"""Which answers the storm judges right, stale or wrong."""

import pytest
from tests.integration.stale.history import History, State, Verdict

THEN = State("old", 0.0, 1.0), State("new", 10.0, 11.0)


@pytest.mark.parametrize(
    ("outcome", "began", "ended", "verdict"),
    [
        ("old", 2.0, 3.0, "right"),
        ("old", 9.0, 20.0, "right"),
        ("old", 10.5, 20.0, "right"),
        ("old", 11.0, 11.5, "stale"),
        ("old", 20.0, 21.0, "stale"),
        ("new", 20.0, 21.0, "right"),
        ("new", 10.5, 10.6, "right"),
        ("new", 2.0, 10.5, "right"),
        ("new", 2.0, 3.0, "wrong"),
        ("another", 20.0, 21.0, "wrong"),
    ],
)
def test_an_answer_is_stale_when_a_change_was_confirmed_before_its_look_up_began(
    outcome: str, began: float, ended: float, verdict: Verdict
) -> None:
    assert History([*THEN]).judge(outcome, began, ended) == verdict


def test_until_a_change_is_confirmed_both_states_are_right() -> None:
    history = History([*THEN, State("next", 30.0)])
    assert [history.judge(outcome, 31.0, 32.0) for outcome in ("old", "new", "next")] == ["stale", "right", "right"]


def test_a_state_that_is_restored_is_right_again() -> None:
    history = History([*THEN, State("old", 30.0, 31.0)])
    assert [history.judge(outcome, 40.0, 41.0) for outcome in ("old", "new")] == ["right", "stale"]
