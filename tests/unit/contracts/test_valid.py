"""What models, tools and functions answer is made valid where it comes in."""

import math

import pytest

from pallas_contracts.turns import TURN_ERRORS, effect_unknown
from pallas_contracts.valid import valid_json, valid_text

CASES = {
    "plain": ("abc", "abc"),
    "astral": ("\U0001f600", "\U0001f600"),
    "a pair": ("a\ud83d\ude00b", "a\U0001f600b"),
    "the first half": ("a\ud83d", "a\ufffd"),
    "the second half": ("\ude00ü", "\ufffdü"),
    "the wrong order": ("\ude00\ud83d", "\ufffd\ufffd"),
}


@pytest.mark.parametrize("case", CASES)
def test_pairs_are_joined_and_halves_become_replacement_characters(case: str) -> None:
    given, wanted = CASES[case]
    assert valid_text(given) == wanted
    assert valid_json({given: [given, 1, None, {"x": (given,)}]}) == {wanted: [wanted, 1, None, {"x": [wanted]}]} or (
        given == wanted
    )


def test_what_is_valid_is_not_copied() -> None:
    value = {"a": [1, 2.5, "ü", {"b": None}], "c": True}
    assert valid_json(value) is value


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_named(value: float) -> None:
    with pytest.raises(ValueError, match="no number of JSON"):
        valid_json({"a": [value]})


def test_too_many_levels_and_other_types_are_refused() -> None:
    value: object = 0
    for _ in range(201):
        value = [value]
    with pytest.raises(ValueError, match="levels"):
        valid_json(value)
    for other in ({1: 2}, {"a": b""}, [{1}]):
        with pytest.raises(TypeError):
            valid_json(other)


def test_only_what_may_have_taken_effect_unseen_is_unknown() -> None:
    unknown = {code for code in TURN_ERRORS if effect_unknown(code, retryable=False)}
    assert unknown == {"worker_lost", "turn_timeout", "agent_unreachable", "cancelled", "internal"}
    assert not any(effect_unknown(code, retryable=True) for code in TURN_ERRORS)
    assert not effect_unknown(None, retryable=False)
