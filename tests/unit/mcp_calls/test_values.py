"""The values of a JSON text are counted as it arrives, in parts of any size."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pallas_contracts.bounds import Json
from pallas_mcp_calls.http import Values

JSON = st.recursive(
    st.integers() | st.text('",:[{\\a', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('":,\\b', max_size=3), inner, max_size=3),
)


def values_of(value: Json) -> int:
    """Commas, colons and opening brackets outside of strings."""
    match value:
        case dict():
            return max(1, 2 * len(value)) + sum(map(values_of, value.values()))
        case list():
            return max(1, len(value)) + sum(map(values_of, value))
        case _:
            return 0


@given(JSON, st.integers(1, 9), st.booleans())
def test_what_is_in_strings_does_not_count(value: Json, size: int, events: bool) -> None:
    text, counted = json.dumps(value).encode(), Values(events)
    for start in range(0, len(text), size):
        counted.add(text[start : start + size])
    assert counted.count == values_of(value)


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_each_event_is_counted_anew_and_all_of_its_lines_together(end: bytes, size: int) -> None:
    text, counted = b': it is "' + end + b"data: [1,\ndata: 2,\ndata: 3]\n", Values(events=True)
    for start in range(0, len(text), size):
        counted.add(text[start : start + size])
    assert counted.count == 3 + 3
