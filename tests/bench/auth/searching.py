"""How long a search takes for a caller that may read ten libraries of a thousand.

Queries are asked over MCP with the bearer of a team, which is resolved for each; and beside that of Postgres alone, in
the service's own words, without the protocol and the bearer.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.bench.auth.books import QUERIES, book
from tests.bench.auth.parts import Parts
from tests.bench.auth.truth import Team
from tests.bench.calls import Call, messages
from tests.bench.figures import spread
from tests.bench.http_client import connect
from tests.bench.load_process import Load

from library_search.app import PLANS
from library_search.model import DocumentText, Section
from library_search.reading.formats import PLAIN, chunks_of
from library_search.store.documents import Contents, Documents, Place
from library_search.store.queries import Queries, parse_query
from pallas_postgres.engine import open_engine

LANGUAGES = ("english", "simple")
_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured: so many `seconds` for each query, by so many callers at once."""

    documents: int
    callers: tuple[int, ...]
    seconds: float


def measure(
    parts: Parts, load: Load, team: Team, libraries: Sequence[str], extent: Extent, report: Callable[[str], None]
) -> dict[str, Any]:
    """Spread documents over the libraries and search them. Returns figures over MCP by callers, and of Postgres."""
    database = asyncio.run(parts.postgres.new_database())
    settings = {"postgres_url": database, "search_languages": ",".join(LANGUAGES)}
    with parts.running("auth-resolver"), parts.running("library-search", **settings) as service:
        report(f"{extent.documents} documents into {len(libraries)} libraries")
        asyncio.run(_fill(database, libraries, extent.documents))
        asyncio.run(parts.postgres.say("vacuum analyze", database))  # as it happens by itself after a while
        report(f"{len(QUERIES)} queries, {', '.join(map(str, extent.callers))} at once")
        return {
            "documents": extent.documents,
            "libraries": len(libraries),
            **_search(load, service.port, database, team, extent),
        }


def _search(load: Load, port: int, database: str, team: Team, extent: Extent) -> dict[str, Any]:
    """Ask each query in all ways, one way after the other, so that noise hits all."""
    over_mcp: dict[int, list[dict[str, Any]]] = {callers: [] for callers in extent.callers}
    alone: list[float] = []
    for query in QUERIES:
        call = asyncio.run(_expecting(Call(port, "/mcp", "search", {"query": query}, "", 0, team.jwt)))
        for callers, runs in over_mcp.items():
            runs.append(load.run(call, callers, extent.seconds))
        alone += asyncio.run(_postgres_alone(database, team, query, extent.seconds))
    return {
        "mcp": {str(callers): _over_mcp(runs) for callers, runs in over_mcp.items()},
        "postgres": spread("searches", alone),
    }


async def _fill(database: str, libraries: Sequence[str], documents: int) -> None:
    """Store the documents as the service would: handed over to it one by one they would take minutes."""
    engine = open_engine(database, pool=_AT_ONCE, service="bench", options=PLANS)
    shelf, numbers = Documents(engine, LANGUAGES), iter(range(documents))

    async def work() -> None:
        for number in numbers:
            place = Place(libraries[number % len(libraries)], None, "books", f"{number}.txt")
            await shelf.put(place, _contents(number))

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(work())
    await engine.dispose()


def _contents(number: int) -> Contents:
    text = book(number)
    chunks = chunks_of(DocumentText(text, (Section(0, len(text)),)))
    return Contents(f"Book {number}", PLAIN, str(number), len(text), text, chunks)


async def _expecting(call: Call) -> Call:
    """The same call with the answer that it has: from now on it must be that."""
    connection = await connect(call.port)
    [message] = messages(await connection.ask(call.modern()))
    connection.close()
    return call.answered(message["result"]["content"][0]["text"])


def _over_mcp(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    figures = spread("searches", [latency for run in runs for latency in run["latencies"]])
    faults = [fault for run in runs for fault in run["faults"]]
    return figures | {"wrong": sum(run["wrong"] for run in runs), "faults": faults[:3]}


async def _postgres_alone(database: str, team: Team, query: str, seconds: float) -> list[float]:
    engine = open_engine(database, pool=1, service="bench", options=PLANS)
    search = partial(Queries(engine, LANGUAGES).search, dict.fromkeys(team.libraries), parse_query(query), None)
    await search(limit=11, offset=0)  # connects
    latencies: list[float] = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        await search(limit=11, offset=0)
        latencies.append(time.perf_counter() - began)
    await engine.dispose()
    return latencies
