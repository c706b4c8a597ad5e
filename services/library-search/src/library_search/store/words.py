"""Indexing and queries by Postgres' full text search.

A word is searched for in every language of the settings: `english` finds all its forms, `simple` the word as written.
An excluded word is excluded in every language: otherwise `-cats` would not exclude `cat`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from sqlalchemy import ColumnElement, String, case, func, literal, literal_column
from sqlalchemy.dialects.postgresql import REGCONFIG, TSQUERY, TSVECTOR

from pallas_contracts.errors import Rejected

MOST_WORDS = 32
"""Maximum number of words in a query."""

_PARTS = re.compile(r'-?"[^"]*"?|\S+')
_WORD = re.compile(r"[^\W_]+")
_HIGHLIGHT = "MinWords=25, MaxWords=60, ShortWord=0, StartSel=**, StopSel=**"


@dataclass(frozen=True, slots=True)
class Query:
    """What to search for and what to exclude, both in the syntax of `websearch_to_tsquery`."""

    wanted: str
    without: str = ""


def parse_query(text: str) -> Query:
    """Parse a query: words, "phrases", `or`, and `-` before what is excluded.

    Raises:
        Rejected: it has no word to search for, or too many.
    """
    if len(_WORD.findall(text)) > MOST_WORDS:
        raise Rejected(f"query: must have at most {MOST_WORDS} words", code="bad_arguments", field="query")
    wanted: list[str] = []
    without: list[str] = []
    for part in _PARTS.findall(text):
        if part.startswith("-") and _WORD.search(part):
            without.append(part.lstrip("-"))
        else:
            wanted.append(part)
    if not _WORD.search(" ".join(wanted)):
        raise Rejected("query: must have at least one word to search for", field="query")
    return Query(" ".join(wanted), " or ".join(without))


def words_of(languages: Sequence[str], title: Any, heading: Any, text: Any) -> ColumnElement[str]:
    """The expression for `chunks.words`. A word in the title weighs most, then one in the heading."""
    weighted = [
        func.setweight(func.to_tsvector(_config(language), part), literal_column(weight), type_=TSVECTOR)
        for language in languages
        for part, weight in ((title, "'A'"), (heading, "'B'"), (text, "'D'"))
    ]
    return reduce(lambda one, other: one.op("||", return_type=TSVECTOR())(other), weighted)


def match_of(languages: Sequence[str], query: Query) -> ColumnElement[str]:
    """A query as a `tsquery`. It finds nothing if it has only stop words."""
    wanted, without = (_any_language(languages, text) for text in (query.wanted, query.without))
    both = func.tsquery_and(wanted, func.tsquery_not(without), type_=TSQUERY)
    return case((func.numnode(wanted) > 0, both), else_=literal("", TSQUERY))


def _any_language(languages: Sequence[str], text: str) -> ColumnElement[str]:
    each = [
        func.websearch_to_tsquery(_config(language), literal(text, String), type_=TSQUERY) for language in languages
    ]
    return reduce(lambda one, other: func.tsquery_or(one, other, type_=TSQUERY), each)


def highlighted(language: str, text: Any, match: ColumnElement[str]) -> ColumnElement[str]:
    """Excerpts of a text, with the matches between `**`."""
    return func.ts_headline(_config(language), text, match, literal(_HIGHLIGHT, String), type_=String)


def _config(language: str) -> ColumnElement[str]:
    return literal(language, REGCONFIG)
