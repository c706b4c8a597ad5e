"""Arguments that the tools refuse, and the cursors of their lists."""

import re
from typing import Any

import pytest

from library_search.handlers.arguments import (
    Arguments,
    GetChunk,
    GetDocument,
    GetHealth,
    ListItems,
    Search,
    cursor_of,
    key_of,
    parse,
)
from pallas_contracts.errors import Rejected


@pytest.mark.parametrize(
    ("tool", "given", "field", "reason"),
    [
        (Search, {}, "query", "^query: is required$"),
        (Search, {"query": ""}, "query", "^query: must have at least 1 character$"),
        (Search, {"query": "x" * 1001}, "query", "at most 1000 characters"),
        (Search, {"query": "a\0b"}, "query", "^query: must not hold a NUL character$"),
        (Search, {"query": 5}, "query", "^query: must be a valid string$"),
        (Search, {"query": "x", "limit": 51}, "limit", "^limit: must be less than or equal to 50$"),
        (Search, {"query": "x", "limit": "5"}, "limit", "valid integer"),
        (Search, {"query": "x", "limit": True}, "limit", "valid integer"),
        (Search, {"query": "x", "offset": 1001}, "offset", "less than or equal to 1000"),
        (Search, {"query": "x", "libraries": "animals"}, "libraries", "valid list"),
        (Search, {"query": "x", "libraries": ["a", ""]}, "libraries.1", "at least 1 character"),
        (Search, {"query": "x", "speed": 1}, "speed", "^unknown argument 'speed'$"),
        (GetDocument, {"document": "d", "offset": 2**31 - 1}, "offset", "less than or equal to 1073741824"),
        (GetDocument, {"document": "d", "offset": -1}, "offset", "greater than or equal to 0"),
        (GetDocument, {"document": "d", "limit": 50_001}, "limit", "less than or equal to 50000"),
        (GetChunk, {"chunk": "c", "before": 11}, "before", "less than or equal to 10"),
        (ListItems, {"limit": 0}, "limit", "greater than or equal to 1"),
        (GetHealth, {"deep": True}, "deep", "^unknown argument 'deep'$"),
        (Search, {"query": "\ud800"}, "query", "valid string"),
        (Search, {"query": None}, "query", "^query: is required$"),
    ],
)
def test_bad_arguments_are_refused_by_field_and_reason_without_their_values(
    tool: type[Arguments], given: dict[str, Any], field: str, reason: str
) -> None:
    with pytest.raises(Rejected, match=reason) as refused:
        parse(tool, given)
    assert refused.value.facts["field"] == field
    assert refused.value.message.startswith((f"{field}: ", "unknown argument "))
    assert not re.search("should|Value error|not permitted", refused.value.message)
    assert "xxxxx" not in refused.value.message


def test_null_for_an_optional_argument_counts_as_absent() -> None:
    assert parse(Search, {"query": "x", "limit": None, "libraries": None}) == parse(Search, {"query": "x"})


@pytest.mark.parametrize("key", [("a",), ("", "b"), ("ü,\"'\n", "\\", "z" * 2000)])
def test_a_cursor_is_read_back_as_its_key(key: tuple[str, ...]) -> None:
    assert key_of(cursor_of(*key), len(key)) == key


@pytest.mark.parametrize(
    "cursor",
    ["%%%", "a", "AAAA", cursor_of("a"), cursor_of("a", "b", "c"), "WyJhIiwgNV0", "W10", "e30", "WyJcdTAwMDAiLCAiYiJd"],
)
def test_an_invalid_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(Rejected, match="cursor: must be a `next_cursor`"):
        key_of(cursor, 2)


def test_without_a_cursor_a_list_begins_at_the_start() -> None:
    assert key_of(None, 2) is None
