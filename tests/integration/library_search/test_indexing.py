"""All documents are indexed again when the languages change, however long that takes."""

import asyncio
from functools import partial

import pytest
from sqlalchemy import text
from tests.integration.library_search.lab import CHEAP, PASSWORD, StandIn, Truth, a_search
from tests.integration.real_parts import until
from tests.postgres import PostgresServer

from library_search.app import INDEXING, build
from library_search.settings import LibrarySearchSettings
from pallas_postgres.engine import open_engine
from pallas_runtime.probes import Probes
from pallas_runtime.process import Process

_UPDATING = """select count(*) from pg_stat_activity where datname = current_database() and query ilike 'update chunks%'
and state = 'active' and clock_timestamp() - query_start > interval '1.5 seconds'"""


async def test_reindexing_may_exceed_the_statement_timeout_and_readiness_reports_it(
    environ: dict[str, str],
    truth: Truth,
    callers: StandIn,
    postgres: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await truth.publish("created", "shelf")
    callers.libraries["ann"] = ("shelf",)
    async with a_search(environ) as search:
        await search.document("shelf", "a.txt", "Die Häuser standen leer.")
    # All other statements time out after half a second, in Postgres and in the client.
    brief = partial(open_engine, command_seconds=0.5)
    monkeypatch.setattr("library_search.app.open_engine", brief)
    monkeypatch.setattr("library_search.app.PLANS", {"statement_timeout": "500ms", "lock_timeout": "500ms"})
    given = {**environ, "PALLAS_SEARCH_LANGUAGES": "german", "PALLAS_ADMIN_PASSWORD_HASH": CHEAP.hash(PASSWORD)}
    process = Process("library-search", "search-0", 0, Probes())
    url = environ["PALLAS_POSTGRES_URL"]
    holder = open_engine(url, pool=1, service="tests")

    async def start() -> None:
        async with build(LibrarySearchSettings.from_env(given), process):
            process.probes.started = True

    async def takes_long() -> bool:
        return await postgres.say(_UPDATING, url) == [(1,)]

    async with holder.begin() as held:
        await held.execute(text("select 1 from chunks for update"))
        starting = asyncio.create_task(start())
        await until(takes_long)
        assert process.probes.missing() == {"process": INDEXING}
    await starting
    await holder.dispose()
    async with a_search(environ | {"PALLAS_SEARCH_LANGUAGES": "german"}) as search:
        assert len((await search.call("ann", "search", query="Haus"))["results"]) == 1
