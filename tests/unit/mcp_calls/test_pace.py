"""A server that sends too much is read slowly, and what has too many values is not read to its end."""

import json

import pytest

from pallas_mcp_calls.pace import END_OF_EVENT, Pace, Values


def test_what_exceeds_the_allowance_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("pallas_mcp_calls.pace.time.monotonic", lambda: clock[0])
    pace = Pace(burst=10, rate=5)
    assert [pace.take(4), pace.take(6)] == [0, 0]
    assert pace.take(10) == 2.0
    clock[0] += 2
    assert pace.take(0) == 0
    assert pace.take(1) == 0.2
    clock[0] += 3600
    assert [pace.take(10), pace.take(5)] == [0, 1.0], "the allowance never grows beyond its burst"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_values_are_counted_and_what_stands_in_texts_is_not(size: int) -> None:
    text = json.dumps({"a": "[,{\\\\", 'b\\"': ['",[{\n', 1, 2, "\\"]}).encode()
    values = Values()
    for start in range(0, len(text), size):
        values.take(text[start : start + size])
    assert values.take(b",") == 10 + 1 + 1 + 3 + 1


def test_each_event_of_a_stream_is_counted_anew_and_a_comment_hides_nothing() -> None:
    values = Values()
    assert values.take(b': "\rdata: [1,2]', *END_OF_EVENT) == 2
    assert values.take(b"\n\ndata: [1,", *END_OF_EVENT) == 2
    assert values.take(b"2,\r\n\r\ndata: [", *END_OF_EVENT) == 1
