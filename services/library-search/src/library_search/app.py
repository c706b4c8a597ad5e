"""Builds the service. It starts when its database is there. Without the broker no bearer can be checked."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from sqlalchemy.ext.asyncio import AsyncEngine
from sse_starlette.sse import AppStatus
from starlette.types import ASGIApp

from library_search.handlers.follow_libraries import FollowLibraries
from library_search.handlers.ingest_document import IngestDocument
from library_search.http.admin import Admin
from library_search.http.routing import LARGEST_MESSAGE, Bearers, Http
from library_search.mcp.tool_server import PerCaller, ToolServer, make_tools
from library_search.metrics import make_metrics
from library_search.migrate import MIGRATIONS
from library_search.reading.reader import Reader
from library_search.settings import LibrarySearchSettings, languages_of
from library_search.store.documents import Documents
from library_search.store.libraries import Libraries, reindex
from library_search.store.queries import Queries
from pallas_bus.access import Access
from pallas_bus.ask import ask
from pallas_bus.connection import connect_when_possible
from pallas_contracts.catalog import RESOLVE, SEARCH
from pallas_credentials.accounts import Account
from pallas_postgres.engine import open_engine, ping
from pallas_runtime.http.senders import accepted_hosts
from pallas_runtime.process import Process
from pallas_runtime.run import Service, Simple

log = logging.getLogger(__name__)

PLANS = {"plan_cache_mode": "force_custom_plan"}
"""A generic plan would ignore how many libraries the caller may read."""

INDEXING = "reindexing all documents for other search languages"

ANSWER_SECONDS = 3.0
"""Time limit of the readiness check. It has a connection of its own, so that queries of callers do not delay it."""


@asynccontextmanager
async def build(settings: LibrarySearchSettings, process: Process) -> AsyncGenerator[Simple]:
    """Migrate the tables, follow the changes of libraries, and serve.

    Raises:
        Rejected: Postgres does not know a language of the settings.
    """
    _keep_streams_on_sigterm()
    languages = languages_of(settings.search_languages)
    access = Access.of(settings)
    async with AsyncExitStack() as stack:
        database, pool = settings.postgres_url.get_secret_value(), settings.postgres_pool
        engine = open_engine(database, pool=pool, service="library-search", options=PLANS)
        stack.push_async_callback(engine.dispose)
        checking = open_engine(database, pool=1, service="library-search", command_seconds=ANSWER_SECONDS)
        stack.push_async_callback(checking.dispose)
        enter = stack.enter_async_context
        readiness = await enter(process.needs(postgres=partial(ping, checking)))
        await MIGRATIONS.prepare(engine, partial(_index, engine, languages, process))
        await readiness.check()
        bus = await enter(connect_when_possible(access, SEARCH, instance=process.instance))
        await enter(process.uses(bus))
        following = FollowLibraries(Libraries(engine))
        process.probes.checks["changes"] = lambda: following.missing
        await enter(process.running(following.run(bus), "changes of libraries"))
        metrics = make_metrics(process.probes.metrics)
        await enter(process.running(metrics.postgres.watch(checking), "figures of Postgres"))
        database_missing = partial(readiness.missing, "postgres")
        tools = make_tools(Queries(engine, languages), database_missing, lambda: following.missing)
        server = ToolServer(tools, metrics, PerCaller(max(1, pool // 3))).server
        mcp = await enter(_serving_mcp(process, server, _security(settings)))
        reader = Reader()
        stack.push_async_callback(reader.close)
        admin = _admin(settings, Documents(engine, languages), reader)
        http = Http(mcp, admin, Bearers(partial(ask, bus, RESOLVE), metrics))
        yield Simple(http, http.finish)


async def _index(engine: AsyncEngine, languages: tuple[str, ...], process: Process) -> None:
    """Reindex all documents if the languages have changed."""

    def begins() -> None:
        process.probes.starting = INDEXING
        log.info(INDEXING, extra={"languages": ",".join(languages)})

    if made := await reindex(engine, languages, begins):
        log.info("reindexed all documents", extra={"chunks": made, "languages": ",".join(languages)})


@asynccontextmanager
async def _serving_mcp(
    process: Process, server: Server[object], security: TransportSecuritySettings
) -> AsyncGenerator[ASGIApp]:
    """Run the server's session manager, which must start and end in one task."""
    # Tools are fast and send no progress, so answers need no streams.
    manager = StreamableHTTPSessionManager(
        server,
        stateless=True,
        json_response=True,
        security_settings=security,
        max_request_body_size=LARGEST_MESSAGE,
    )
    ready = asyncio.Event()

    async def live() -> None:
        async with manager.run():
            ready.set()
            await asyncio.Event().wait()

    async with process.running(live(), "MCP"):
        await ready.wait()
        yield manager.handle_request


def _admin(settings: LibrarySearchSettings, documents: Documents, reader: Reader) -> Admin:
    password_hash = settings.admin_password_hash
    if password_hash is None:
        log.warning("PALLAS_ADMIN_PASSWORD_HASH is not set: no documents can be added")
    account = Account("admin", password_hash.get_secret_value() if password_hash else None)
    return Admin(account, IngestDocument(documents, reader), documents, settings.max_document_bytes)


def _security(settings: LibrarySearchSettings) -> TransportSecuritySettings:
    accepted = accepted_hosts(settings.public_url, settings.allowed_hosts, settings.allowed_origins)
    if accepted is None:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True, allowed_hosts=accepted.hosts, allowed_origins=accepted.origins
    )


def _keep_streams_on_sigterm() -> None:
    """Finish answers after SIGTERM. By default sse-starlette cuts streams off."""
    AppStatus.disable_automatic_graceful_drain()


SERVICE = Service("library-search", LibrarySearchSettings, build)
