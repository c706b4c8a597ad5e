"""Queries. Every query is limited to the libraries that the caller may read.

A document in another library is looked up in the same way as one that does not exist.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Select,
    String,
    Text,
    any_,
    case,
    column,
    exists,
    func,
    literal,
    literal_column,
    select,
    tuple_,
)
from sqlalchemy.dialects.postgresql import REGCONFIG, TSQUERY, TSVECTOR
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.orm import InstrumentedAttribute, aliased

from library_search.model import ChunkId, Readable, is_document_id
from library_search.tables import Chunk, Document, Library
from pallas_contracts.errors import Rejected
from pallas_postgres.engine import reading

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


type Line = Mapping[str, Any]
"""A row by the names of its columns."""
type Key = tuple[str, ...] | None
"""The sort key of the last line of the previous page; None for the first page."""

_NOBODY = "00000000-0000-0000-0000-000000000000"
_LONG_TEXT_COUNTS_LESS, _BELOW_ONE = 1, 32
"""Normalisation flags of `ts_rank_cd`."""
_FACTS = (
    Document.id.label("document"),
    Document.library_uid.label("library"),
    Document.collection,
    Document.path,
    Document.title,
)
_MORE_FACTS = (Document.media_type, Document.chunks, Document.characters, Document.updated_at)


class Queries:
    """Queries the tables. `languages` are those in which the chunks are indexed.

    All methods raise `Unavailable` when Postgres cannot be used right now.
    """

    def __init__(self, engine: AsyncEngine, languages: Sequence[str]) -> None:
        self._engine = engine
        self._languages = languages

    async def search(
        self, readable: Readable, query: Query, collection: str | None, *, limit: int, offset: int
    ) -> list[Line]:
        """Chunks, the best first. Only the returned ones are highlighted, because that takes most of the time."""
        match = match_of(self._languages, query)
        score = func.ts_rank_cd(Chunk.words, match, _LONG_TEXT_COUNTS_LESS | _BELOW_ONE).label("score")
        found = select(Chunk.document_id, Chunk.position, score).where(
            _in(Chunk.library_uid, readable), Chunk.words.bool_op("@@")(match)
        )
        if collection is not None:
            holds = (Document.id == Chunk.document_id) & (Document.collection == collection)
            found = found.where(exists().where(holds))
        order = (score.desc(), Chunk.document_id, Chunk.position)
        best = found.order_by(*order).limit(limit).offset(offset).cte("best")
        text = highlighted(self._languages[0], Chunk.text, match).label("text")
        shown = (
            select(*_FACTS, Library.name.label("library_name"), Chunk.position, Chunk.heading, Chunk.page)
            .add_columns(best.c.score, text)
            .join(Document, Document.id == best.c.document_id)
            .join(Chunk, (Chunk.document_id == best.c.document_id) & (Chunk.position == best.c.position))
            .join(Library, Library.uid == Document.library_uid)
            .order_by(best.c.score.desc(), best.c.document_id, best.c.position)
        )
        return await self._lines(shown)

    async def document(self, readable: Readable, document: str, *, offset: int, limit: int) -> Line | None:
        """A document and `limit` characters of its text."""
        known = document if is_document_id(document) else _NOBODY
        text = func.substr(Document.text, offset + 1, limit).label("text")
        lines = await self._lines(
            select(*_FACTS, *_MORE_FACTS, Library.name.label("library_name"), text)
            .join(Library, Library.uid == Document.library_uid)
            .where(Document.id == known, _in(Document.library_uid, readable))
        )
        return lines[0] if lines else None

    async def chunks(self, readable: Readable, chunk: str, *, before: int, after: int) -> list[Line]:
        """A chunk and its neighbours; empty if the chunk itself does not exist."""
        wanted = ChunkId.parse(chunk) or ChunkId(_NOBODY, 0)
        lines = await self._lines(
            select(*_FACTS, Chunk.position, Chunk.start, Chunk.heading, Chunk.page, Chunk.text)
            .join(Document, Document.id == Chunk.document_id)
            .where(Chunk.document_id == wanted.document, _in(Document.library_uid, readable))
            .where(Chunk.position.between(wanted.position - before, wanted.position + after))
            .order_by(Chunk.position)
        )
        return lines if any(line["position"] == wanted.position for line in lines) else []

    async def libraries(self, readable: Readable, behind: Key, limit: int) -> list[Line]:
        """Libraries, with the numbers of their documents and collections, by uid."""
        page = select(Library.uid, Library.name).where(_in(Library.uid, readable), *_behind(behind, Library.uid))
        page = page.order_by(Library.uid).limit(limit).subquery()
        documents, collections = func.count(Document.id), func.count(Document.collection.distinct())
        return await self._lines(
            select(page.c.uid.label("library"), page.c.name)
            .add_columns(documents.label("documents"), collections.label("collections"))
            .join_from(page, Document, Document.library_uid == page.c.uid, isouter=True)
            .group_by(page.c.uid, page.c.name)
            .order_by(page.c.uid)
        )

    async def collections(self, readable: Readable, behind: Key, limit: int) -> list[Line]:
        """Collections, with the numbers of their documents, by library and name."""
        key = (Document.library_uid, Document.collection)
        return await self._lines(
            select(Document.library_uid.label("library"), Document.collection, func.count().label("documents"))
            .where(_in(Document.library_uid, readable), *_behind(behind, *key))
            .group_by(*key)
            .order_by(*key)
            .limit(limit)
        )

    async def items(self, readable: Readable, collection: str | None, behind: Key, limit: int) -> list[Line]:
        """Documents without their texts, by library, collection and path."""
        key = (Document.library_uid, Document.collection, Document.path)
        found = select(*_FACTS, *_MORE_FACTS).where(_in(Document.library_uid, readable), *_behind(behind, *key))
        if collection is not None:
            found = found.where(Document.collection == collection)
        return await self._lines(found.order_by(*key).limit(limit))

    async def _lines(self, statement: Select[*tuple[Any, ...]]) -> list[Line]:
        async with reading(self._engine) as session:
            return [dict(row) for row in (await session.execute(statement)).mappings()]


def _in(uid: InstrumentedAttribute[str], readable: Readable) -> ColumnElement[bool]:
    """Whether the caller may read the library. Not if its identity differs here: then its deletion is on the way."""
    uids = sorted(readable)
    here = aliased(Library)
    granted = func.unnest(literal(uids, ARRAY(Text)), literal([readable[uid] for uid in uids], ARRAY(Text)))
    granted = granted.table_valued(column("uid", Text), column("identity", Text), name="granted").render_derived()
    other = (
        select(here.uid)
        .join(granted, here.uid == granted.c.uid)
        .where(here.identity.is_distinct_from(granted.c.identity))
    )
    return (uid == any_(literal(uids, ARRAY(Text)))) & uid.not_in(other)


def _behind(key: Key, *columns: InstrumentedAttribute[str]) -> list[ColumnElement[bool]]:
    return [tuple_(*columns) > tuple_(*(literal(part, Text) for part in key))] if key else []
