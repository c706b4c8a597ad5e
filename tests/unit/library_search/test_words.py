"""How a query is read: words that are wanted and words that are excluded."""

import pytest

from library_search.store.queries import Query, parse_query
from pallas_contracts.errors import Rejected


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("cats", Query("cats")),
        (" cats  and\tdogs ", Query("cats and dogs")),
        ('"cats and" dogs', Query('"cats and" dogs')),
        ("cats -dogs", Query("cats", "dogs")),
        ('-"wild dogs" cats -mice', Query("cats", '"wild dogs" or mice')),
        ('cats -"wild dogs', Query("cats", '"wild dogs')),
        ('cats "-dogs"', Query('cats "-dogs"')),
        ("well-known", Query("well-known")),
        ("cats - dogs --mice", Query("cats - dogs", "mice")),
        ("日本", Query("日本")),
    ],
)
def test_excluded_words_are_separated_from_wanted_ones(text: str, query: Query) -> None:
    assert parse_query(text) == query


@pytest.mark.parametrize("text", ["", "  ", "?!", "-cats", '-"a b" -c', '""', "- -"])
def test_a_query_without_a_word_to_look_for_is_refused(text: str) -> None:
    with pytest.raises(Rejected, match="query: must have at least one word"):
        parse_query(text)


@pytest.mark.parametrize("between", [" ", "-", "_", '" "', "/"])
def test_a_query_has_at_most_32_words_however_they_are_written(between: str) -> None:
    parse_query(between.join(["word"] * 32))
    with pytest.raises(Rejected, match="query: must have at most 32 words") as refused:
        parse_query(between.join(["word"] * 33))
    assert (refused.value.code, refused.value.facts["field"]) == ("bad_arguments", "query")
