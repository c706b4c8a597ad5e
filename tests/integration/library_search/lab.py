"""library-search as its process builds it, in the test's process, with real servers.

A stand-in for the resolver decides who may read what, unless a test runs the real one (`services.py`).
"""

import asyncio
import json
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx
import httpx2
from argon2 import PasswordHasher
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent
from tests.integration.real_parts import until
from tests.postgres import PostgresServer
from tests.waiting import PATIENCE, eventually, soon

from library_search.app import build
from library_search.settings import LibrarySearchSettings
from pallas_bus.ask import answer, answering, ask
from pallas_bus.connection import Bus
from pallas_bus.streams import declare
from pallas_contracts.auth import AUTH_FAILURES, LifecycleChanged, ResolveBearer, Resolved
from pallas_contracts.catalog import CHANGES, LIFECYCLE_CHANGED, RESOLVE
from pallas_contracts.errors import Denied, PallasError, Unavailable
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Principal
from pallas_runtime.http.listener import bind, listening
from pallas_runtime.probes import Probes, with_probes
from pallas_runtime.process import Process

DOCUMENTS = "/admin/api/documents"
PASSWORD = "battery staple"
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)

type Era = Literal["auto", "legacy"]


def structured(result: CallToolResult) -> dict[str, Any]:
    """The structured result of a tool. Fails unless its text is the same."""
    [block] = result.content
    assert isinstance(block, TextContent)
    answered: dict[str, Any] = json.loads(block.text)
    assert answered == result.structured_content
    return answered


@dataclass
class StandIn:
    """Answers from `libraries` and `refused`, by bearer, and records the questions in `asked`.

    `identities` are those of libraries.
    """

    libraries: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    identities: dict[str, str] = field(default_factory=dict[str, str])
    refused: dict[str, str] = field(default_factory=dict[str, str])
    failing: dict[str, PallasError] = field(default_factory=dict[str, PallasError])
    asked: list[ResolveBearer] = field(default_factory=list[ResolveBearer])

    def forget(self) -> None:
        """Become as new."""
        for known in (self.libraries, self.identities, self.refused, self.failing, self.asked):
            known.clear()

    async def __call__(self, question: ResolveBearer) -> Resolved:
        """Answer a question."""
        self.asked.append(question)
        if question.bearer in self.failing:
            raise self.failing[question.bearer]
        if question.bearer not in self.libraries:
            reason = self.refused.get(question.bearer, "token_not_found")
            raise Denied(AUTH_FAILURES[reason], code=reason)
        caller = Principal(type="token", id=question.bearer)
        libraries = self.libraries[question.bearer]
        return Resolved(principal=caller, libraries=libraries, identities=self.identities, cache="hit")


@asynccontextmanager
async def answering_for(bus: Bus, stand_in: StandIn) -> AsyncGenerator[StandIn]:
    """Let a stand-in answer the questions of a resolver."""
    service = await answering(bus)
    try:
        await answer(bus, service, RESOLVE, stand_in)
        yield stand_in
    finally:
        await service.stop()


@dataclass
class Truth:
    """Publishes changes of libraries as team-lifecycle does."""

    bus: Bus
    number: int = 0

    async def declare(self) -> None:
        """Create the stream."""
        await declare(self.bus, CHANGES)

    async def publish(self, action: str, uid: str, number: int | None = None, **data: Any) -> LifecycleChanged:
        """Publish a change of a library."""
        self.number = number or self.number + 1
        event = LifecycleChanged(
            number=self.number,
            kind="library",
            action=action,
            id=uid,
            actor="admin",
            correlation="c",
            data=data or {"name": uid.title(), "workspace_id": None},
            at=utc_now(),
        )
        subject = LIFECYCLE_CHANGED.template.subject(kind="library", action=action)
        await self.bus.put(subject, event.model_dump_json().encode())
        return event


@dataclass(frozen=True)
class Search:
    """A running service. `environ` are its variables, `admin` is a client with the admins' account."""

    environ: Mapping[str, str]
    process: Process
    base: str
    admin: httpx.AsyncClient

    @property
    def url(self) -> str:
        """The MCP endpoint."""
        return f"{self.base}/mcp"

    async def put(self, library: str, path: str, content: str | bytes, **query: str) -> httpx.Response:
        """Upload a file."""
        body = content.encode() if isinstance(content, str) else content
        return await self.admin.put(f"{DOCUMENTS}/{library}", params={"path": path, **query}, content=body)

    async def document(self, library: str, path: str, content: str | bytes, **query: str) -> str:
        """Upload a file once its library is known. Returns the document's id."""
        async with asyncio.timeout(PATIENCE):
            while (done := await self.put(library, path, content, **query)).status_code == 404:
                pass  # each upload has waited for the library
        assert done.status_code in (200, 201), done.text
        return done.json()["document"]

    @asynccontextmanager
    async def client(self, bearer: str, era: Era = "auto") -> AsyncGenerator[Client]:
        """The official client, connected, with a bearer."""
        headers = {"Authorization": f"Bearer {bearer}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=20, trust_env=False, verify=False) as http,
            Client(streamable_http_client(self.url, http_client=http), mode=era) as client,
        ):
            yield client

    async def call(self, bearer: str, tool: str, era: Era = "auto", **arguments: Any) -> dict[str, Any]:
        """Call a tool that succeeds. Returns its structured content."""
        async with self.client(bearer, era) as client:
            result = await client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        return structured(result)

    async def connected(self) -> None:
        """Wait until the service is connected to the broker."""
        await eventually(lambda: "broker" not in self.process.probes.missing())

    async def empty(self, server: PostgresServer, last: int) -> None:
        """Delete all libraries and documents, once change number `last` is applied."""
        database = self.environ["PALLAS_POSTGRES_URL"]

        async def is_applied() -> bool:
            return await server.say("select number from changes_position", database) == [(last,)]

        await until(is_applied)
        await server.empty(database, "libraries")

    def measured(self, metric: str, **labels: str) -> float:
        """The value of a metric."""
        return self.process.probes.metrics.get_sample_value(metric, labels) or 0.0


@asynccontextmanager
async def a_search(environ: Mapping[str, str]) -> AsyncGenerator[Search]:
    """Run the service. `environ` are its variables, the addresses among them."""
    given = {"PALLAS_ADMIN_PASSWORD_HASH": CHEAP.hash(PASSWORD), "PALLAS_DRAIN_SECONDS": "2", **environ}
    listener = bind("127.0.0.1", 0)
    process = Process("library-search", f"search-{uuid.uuid4().hex[:8]}", listener.getsockname()[1], Probes())
    base = f"http://127.0.0.1:{process.port}"
    async with AsyncExitStack() as stack:
        stack.callback(listener.close)
        service = await stack.enter_async_context(build(LibrarySearchSettings.from_env(given), process))
        process.probes.started = True
        app = with_probes(process.probes, lambda: service.http)
        await stack.enter_async_context(listening(app, listener, drain_seconds=1))
        made = httpx.AsyncClient(base_url=base, auth=("admin", PASSWORD), trust_env=False, verify=False, timeout=30)
        admin = await stack.enter_async_context(made)
        yield Search(environ, process, base, admin)


async def callers_are_known(asker: Bus) -> None:
    """Wait until the resolver's stand-in is connected."""

    async def answered() -> bool:
        try:
            await ask(asker, RESOLVE, ResolveBearer(bearer="ann"))
        except Unavailable:
            return False
        return True

    await until(answered)


async def known(search: Search, stand_in: StandIn, *uids: str) -> None:
    """Wait until the service knows these libraries."""
    stand_in.libraries["look"] = uids
    async with search.client("look") as client:

        async def look() -> None:
            while True:
                answered = structured(await client.call_tool("list_libraries", {}))
                if len(answered["libraries"]) == len(uids):
                    return

        await soon(look(), PATIENCE)
