"""An answer that JSON cannot hold is mended, or ends the turn by name."""

import math
from typing import Any

import pytest
from pydantic import TypeAdapter

from pallas_contracts.turns import InputRequired, Result, TurnEvents
from pallas_turns.conclude import valid_outcome
from pallas_turns.runtime import Completed, Failed, NeedsInput

HALF, PAIR = "a\ud83d", "\ud83d\ude00"


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_an_answer_that_is_valid_stays_the_same_object() -> None:
    result = Result(content=({"type": "text", "text": "ü"},), structured={"a": [1.5, None]}, meta={"b": True})
    assert valid_outcome(Completed(result)) == Completed(result)


def test_pairs_are_joined_and_halves_replaced_in_every_part_of_an_answer() -> None:
    given = Result(content=({"type": "text", "text": HALF},), structured={PAIR: [HALF]}, meta={"m": PAIR})
    wanted = Result(content=({"type": "text", "text": "a\ufffd"},), structured={"😀": ["a\ufffd"]}, meta={"m": "😀"})
    assert valid_outcome(Completed(given)) == Completed(wanted)
    asked = valid_outcome(NeedsInput(InputRequired(input_requests={"q": HALF}, request_state=HALF)))
    assert asked == NeedsInput(InputRequired(input_requests={"q": "a\ufffd"}, request_state="a\ufffd"))
    failed = valid_outcome(Failed("internal", HALF, data={"x": math.nan}))
    assert failed == Failed("internal", "a\ufffd")


@pytest.mark.parametrize(
    ("value", "why"),
    [(math.nan, "nan"), (math.inf, "inf"), (object(), "object"), (nested(230), "levels"), (nested(5000), "levels")],
    ids=["NaN", "infinity", "an object", "levels", "many levels"],
)
def test_an_answer_that_cannot_be_mended_ends_the_turn_by_name(value: Any, why: str) -> None:
    failed = valid_outcome(Completed(Result(structured={"n": value})))
    assert isinstance(failed, Failed)
    assert (failed.code, failed.retryable) == ("invalid_answer", False)
    assert "'structured'" in failed.message
    assert why in failed.message


def test_every_answer_that_passes_can_be_read_again() -> None:
    events = TypeAdapter(TurnEvents)
    for levels in range(190, 205):
        outcome = valid_outcome(Completed(Result(structured=nested(levels))))
        if isinstance(outcome, Completed):
            written = TurnEvents(turn_id="0" * 32, team="t", agent="a", attempt=1, events=(outcome.result,))
            events.validate_json(written.model_dump_json())
