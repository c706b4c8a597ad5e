"""By which words a chunk is found, and what a query means, in the terms of Postgres' full text search.

A word is looked for in every language of the settings: `english` finds it in all its forms, `simple` as it is written.
What a query leaves out is left out in every language; only this way does `-cats` leave out what has `cat`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from sqlalchemy import ColumnElement, String, case, func, literal, literal_column
from sqlalchemy.dialects.postgresql import REGCONFIG, TSQUERY, TSVECTOR

from library_search.arguments import MOST_WORDS
from pallas_contracts.errors import Rejected

_PARTS = re.compile(r'-?"[^"]*"?|\S+')
_WORD = re.compile(r"[^\W_]+")
_HIGHLIGHT = "MinWords=25, MaxWords=60, ShortWord=0, StartSel=**, StopSel=**"


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for, and what must not be there, both in the language of `websearch_to_tsquery`."""

    wanted: str
    without: str = ""


def parse_query(text: str) -> Query:
    """Take a query apart: words, "phrases", `or`, and `-` before what is to be left out.

    Raises:
        Rejected: there is no word in it that could be found, or there are too many.
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
        raise Rejected("query: there is no word in it to look for", field="query")
    return Query(" ".join(wanted), " or ".join(without))


def words_of(languages: Sequence[str], title: Any, heading: Any, text: Any) -> ColumnElement[str]:
    """The value of `chunks.words`, of columns. A word in the title counts most, then one in the heading."""
    weighted = [
        func.setweight(func.to_tsvector(_config(language), part), literal_column(weight), type_=TSVECTOR)
        for language in languages
        for part, weight in ((title, "'A'"), (heading, "'B'"), (text, "'D'"))
    ]
    return reduce(lambda one, other: one.op("||", return_type=TSVECTOR())(other), weighted)


def match_of(languages: Sequence[str], query: Query) -> ColumnElement[str]:
    """A query as Postgres has it. Without a wanted word that counts in a language it finds nothing."""
    wanted, without = (_any_language(languages, text) for text in (query.wanted, query.without))
    both = func.tsquery_and(wanted, func.tsquery_not(without), type_=TSQUERY)
    return case((func.numnode(wanted) > 0, both), else_=literal("", TSQUERY))


def _any_language(languages: Sequence[str], text: str) -> ColumnElement[str]:
    each = [
        func.websearch_to_tsquery(_config(language), literal(text, String), type_=TSQUERY) for language in languages
    ]
    return reduce(lambda one, other: func.tsquery_or(one, other, type_=TSQUERY), each)


def highlighted(language: str, text: Any, match: ColumnElement[str]) -> ColumnElement[str]:
    """Parts of a text with what was found between `**`."""
    return func.ts_headline(_config(language), text, match, literal(_HIGHLIGHT, String), type_=String)


def _config(language: str) -> ColumnElement[str]:
    return literal(language, REGCONFIG)
