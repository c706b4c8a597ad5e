"""Builds the service. It starts when its database is there. Without the broker no bearer can be checked."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from sqlalchemy.ext.asyncio import AsyncEngine
from starlette.types import ASGIApp

from library_search.adapters.documents import Documents
from library_search.adapters.indexing import index_by
from library_search.adapters.libraries import Libraries
from library_search.adapters.shelves import Shelves
from library_search.entry.admin import Admin
from library_search.entry.bearers import Bearers
from library_search.entry.http import LARGEST_MESSAGE, Http
from library_search.entry.per_caller import PerCaller
from library_search.entry.tool_server import ToolServer
from library_search.entry.tools import make_tools
from library_search.handlers.follow_libraries import FollowLibraries
from library_search.handlers.ingest_document import IngestDocument
from library_search.health import ANSWER_SECONDS, Needs
from library_search.metrics import make_metrics
from library_search.migrate import MIGRATIONS
from library_search.reading.reader import Reader
from library_search.settings import LibrarySearchSettings, languages_of
from pallas_bus.transport.access import Access
from pallas_bus.transport.ask import ask
from pallas_bus.transport.connection import connect_when_possible
from pallas_contracts.catalog import RESOLVE, SEARCH
from pallas_contracts.errors import Unavailable
from pallas_credentials.accounts import Account
from pallas_postgres.engine import open_engine, ping
from pallas_runtime.run import BROKER, Process

log = logging.getLogger(__name__)

PLANS = {"plan_cache_mode": "force_custom_plan"}
"""A generic plan would ignore how many libraries the caller may read."""

INDEXING = "reindexing all documents for other search languages"

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_RETRY = 0.5


@dataclass(frozen=True)
class LibrarySearch:
    """The running service."""

    http: Http

    async def drain(self) -> None:
        """Answer the requests under way."""
        await self.http.finish()


@asynccontextmanager
async def build(settings: LibrarySearchSettings, process: Process) -> AsyncGenerator[LibrarySearch]:
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
        polling = open_engine(database, pool=1, service="library-search", command_seconds=ANSWER_SECONDS)
        stack.push_async_callback(polling.dispose)
        needs = Needs(partial(ping, polling))
        process.probes.checks["postgres"] = needs.missing
        await _spawn(stack, process, needs.watch(), "readiness check")
        await _prepare(engine, languages, process)
        await needs.check()
        bus = await stack.enter_async_context(connect_when_possible(access, SEARCH, instance=process.instance))
        await stack.enter_async_context(process.without(bus.closed, BROKER))
        process.probes.checks["broker"] = lambda: None if bus.connected else "not connected"
        following = FollowLibraries(Libraries(engine))
        process.probes.checks["changes"] = lambda: following.missing
        await _spawn(stack, process, following.run(bus), "changes of libraries")
        metrics = make_metrics(process.probes.metrics)
        tools = make_tools(Shelves(engine, languages), needs.missing, lambda: following.missing)
        server = ToolServer(tools, metrics, PerCaller(max(1, pool // 3))).server
        mcp = await _serve_mcp(stack, process, server, _security(settings))
        reader = Reader()
        stack.push_async_callback(reader.close)
        admin = _admin(settings, Documents(engine, languages), reader)
        yield LibrarySearch(Http(mcp, admin, Bearers(partial(ask, bus, RESOLVE), metrics)))


async def _spawn(stack: AsyncExitStack, process: Process, work: Coroutine[None, None, None], name: str) -> None:
    """Run `work` until the stack is closed. If it ends before, the process ends."""
    task = process.vital(asyncio.create_task(work, name=name))

    async def end() -> None:
        task.cancel()
        await asyncio.wait({task})

    stack.push_async_callback(end)


async def _prepare(engine: AsyncEngine, languages: tuple[str, ...], process: Process) -> None:
    """Wait for Postgres, migrate the tables, and reindex if the languages have changed."""

    def begins() -> None:
        process.probes.starting = INDEXING
        log.info(INDEXING, extra={"languages": ",".join(languages)})

    warned = False
    while True:
        try:
            await MIGRATIONS.run(engine)
            if made := await index_by(engine, languages, begins):
                log.info("reindexed all documents", extra={"chunks": made, "languages": ",".join(languages)})
        except Unavailable as error:
            if not warned:
                log.warning("waiting for the database", extra={"reason": error.message})
                warned = True
            await asyncio.sleep(_RETRY)
        else:
            return


async def _serve_mcp(
    stack: AsyncExitStack, process: Process, server: Server[object], security: TransportSecuritySettings
) -> ASGIApp:
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

    await _spawn(stack, process, live(), "MCP")
    await ready.wait()
    return manager.handle_request


def _admin(settings: LibrarySearchSettings, documents: Documents, reader: Reader) -> Admin:
    password_hash = settings.admin_password_hash
    if password_hash is None:
        log.warning("PALLAS_ADMIN_PASSWORD_HASH is not set: no documents can be added")
    account = Account("admin", password_hash.get_secret_value() if password_hash else None)
    return Admin(account, IngestDocument(documents, reader), documents, settings.max_document_bytes)


def _security(settings: LibrarySearchSettings) -> TransportSecuritySettings:
    """Accepted Host and Origin headers: loopback, the public address, and those of the settings."""
    if "*" in settings.allowed_hosts:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    public = urlsplit(settings.public_url).netloc if settings.public_url else None
    local = [*LOOPBACK, *(f"{host}:*" for host in LOOPBACK)]
    origins = [f"http://{host}" for host in local] + ([settings.public_url.rstrip("/")] if settings.public_url else [])
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[*local, *settings.allowed_hosts, *([public] if public else [])],
        allowed_origins=[*origins, *settings.allowed_origins],
    )


def _keep_streams_on_sigterm() -> None:
    """Finish answers after SIGTERM. By default sse-starlette cuts streams off."""
    from sse_starlette.sse import AppStatus

    AppStatus.disable_automatic_graceful_drain()
