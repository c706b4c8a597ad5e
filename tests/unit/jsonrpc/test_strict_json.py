"""JSON is read only if every reader would read the same."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import timing

from pallas_contracts.errors import Rejected
from pallas_jsonrpc.strict_json import MOST_VALUES, loads


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "Expecting value at line 1, column 1"),
        (b'{"a": 1,}', "Illegal trailing comma"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "an object has the key 'c' twice"),
        (b'{"a": 1, "\\u0061": 2}', "an object has the key 'a' twice"),
        (b"[NaN]", "NaN is not JSON"),
        (b"-Infinity", "-Infinity is not JSON"),
        (b"1e400", "a number is too large"),
        (b"1" * 5000, "a number has too many digits"),
        (b'"\\ud800"', "a text has a lone surrogate"),
        (b'{"\\uDC00": 1}', "a text has a lone surrogate"),
        (b'"\xff"', "it is not UTF-8"),
        (b"\xef\xbb\xbf{}", "Expecting value at line 1, column 1"),
        ('{"a": 1}'.encode("utf-16"), "it is not UTF-8"),
        (b'"a\nb"', "Invalid control character"),
        (b"{} {}", "Extra data"),
        (b"[" * 200_000, "it is nested too deeply"),
        (b'{"a":' * 60_000, "it is nested too deeply"),
        (b"[" * 129 + b"]" * 129, "it is nested too deeply"),
        (b'{"a":' * 129 + b"1" + b"}" * 129, "it is nested too deeply"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_an_ambiguous_text_is_refused_with_the_reason(text: bytes, reason: str) -> None:
    with pytest.raises(Rejected, match=reason.replace("(", r"\(")):
        loads(text)


def test_a_text_may_have_128_levels_and_any_number_of_brackets() -> None:
    loads(b"[" * 128 + b"]" * 128)
    assert loads(b"[" + b"[]," * 300 + b'"[[["]') == [*([[]] * 300), "[[["]


@pytest.mark.parametrize("each", ["[]", "{}", "0", '""', '{"a":[0]}', "[" * 100 + "]" * 100])
async def test_a_text_with_too_many_values_is_refused_without_being_read(each: str) -> None:
    async with timing() as watch:
        with pytest.raises(Rejected, match="more than 200,000 values"):
            loads("[" + ",".join([each] * (8_000_000 // len(each))) + "]")
    assert watch.seconds < 2


@pytest.mark.parametrize("text", [",:[{", '\\"[', "\\\\", '",'.replace('"', '\\"')])
def test_only_values_outside_of_texts_are_counted(text: str) -> None:
    most = "0," * (MOST_VALUES - 2)
    assert loads(f'[{most}"{text * MOST_VALUES}"]')
    with pytest.raises(Rejected, match="more than 200,000 values"):
        loads(f'[{most}"{text * MOST_VALUES}",0,0,0]')


async def test_a_text_that_begins_ever_new_strings_is_looked_at_once() -> None:
    async with timing() as watch:
        for text in ('\\"' * 4_000_000, '"' * 8_000_000, '"' + "\\" * 8_000_001):
            with pytest.raises(Rejected, match="line 1"):
                loads('["' + "," * MOST_VALUES + text)
    assert watch.seconds < 5


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert loads(b'"\\ud83d\\ude00 \\\\ud800"') == "😀 \\ud800"


async def test_a_long_object_with_a_key_twice_is_refused_quickly() -> None:
    text = "{" + ",".join(f'"{n}":1' for n in range(99_000)) + ',"0":1}'
    async with timing() as watch:
        with pytest.raises(Rejected, match="the key '0' twice"):
            loads(text)
    assert watch.seconds < 5


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES, st.booleans())
def test_what_python_writes_is_read_unchanged(value: Any, escaped: bool) -> None:
    assert loads(json.dumps(value, ensure_ascii=escaped).encode()) == value
