"""Subscriptions to resources: what changed (`ResourceChanges`), told on modern streams (`Listening`) and standing ones.

A standing stream is that of a session of the handshake era: `GET` without `Last-Event-ID`, at any gateway. It has
changes of the resources to which the session has subscribed. One that opens, perhaps after another one broke, begins
with all of them, as their changes may have been missed.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, override

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.streamable_http import check_accept_headers
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourceUpdated,
    ServerEvent,
    SubscriptionBus,
)
from mcp.server.transport_security import TransportSecurityMiddleware
from mcp.shared.exceptions import MCPError
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from agent_gateway.answers.results import refuse
from agent_gateway.caller import principal_of
from agent_gateway.handshake.event_stream import Write, frame_of
from agent_gateway.handshake.sessions import MOST_SUBSCRIPTIONS, Sessions
from agent_gateway.mcp.request import scope_of
from agent_gateway.open_streams import OpenStreams
from pallas_contracts.errors import PallasError

GATHER_SECONDS = 0.05
"""Seconds for which the changes of a resource are gathered, such as those that several replicas announce."""

GAP_SECONDS = 0.5
"""Seconds between two notifications of changes of one resource."""


class ResourceChanges:
    """Calls `tell` with each URI that has changed and that somebody wants, at most twice a second."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._wanted = Counter[str]()
        self._changed: dict[str, bool] = {}
        """What changed or was told just now; False: it has not changed since it was told."""

    @contextmanager
    def wanting(self) -> Generator[Callable[[Collection[str]], None]]:
        """Want to hear of changes inside the block. It gets a function that says of which resources."""
        mine: frozenset[str] = frozenset()

        def want(uris: Collection[str]) -> None:
            nonlocal mine
            self._wanted.update(uris)
            self._wanted.subtract(mine)
            for uri in mine:
                if not self._wanted[uri]:
                    del self._wanted[uri]
            mine = frozenset(uris)

        try:
            yield want
        finally:
            want(())

    def changed(self, uri: str) -> None:
        """A resource has changed."""
        if uri in self._changed:
            self._changed[uri] = True
        elif uri in self._wanted:
            self._changed[uri] = True
            asyncio.get_running_loop().call_later(GATHER_SECONDS, self._due, uri)

    def missed(self) -> None:
        """Changes may have been missed: every resource may be another one."""
        for uri in tuple(self._wanted):
            self.changed(uri)

    def _due(self, uri: str) -> None:
        if self._changed.pop(uri):
            self._changed[uri] = False
            self._tell(uri)
            asyncio.get_running_loop().call_later(GAP_SECONDS, self._due, uri)


_KEEP_SECONDS = 3600.0
"""Seconds after which a session with a stream is written again, so that it does not expire."""

_HEADERS = {"Cache-Control": "no-cache, no-transform"}


@dataclass(eq=False)
class _Stream:
    """A stream that is open. `waiting` has the resources that it has yet to tell, each once."""

    waiting: dict[str, None] = field(default_factory=dict[str, None])
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False


@dataclass
class StandingStreams:
    """Serves the streams of the agent `{team}.{agent}`."""

    agent: str
    sessions: Sessions
    bus: InMemorySubscriptionBus
    streams: OpenStreams
    changes: ResourceChanges
    _open: set[_Stream] = field(default_factory=set[_Stream])

    async def serve(
        self, session: str, security: TransportSecurityMiddleware, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Serve one request of a session, or refuse it."""
        request = Request(scope, receive)
        if (refusal := await security.validate_request(request)) is not None:
            await refusal(scope, receive, send)
            return
        if not check_accept_headers(request)[1]:
            await refuse(send, 406, "Not Acceptable: a stream needs Accept: text/event-stream.")
            return
        caller = principal_of(scope)
        if (full := self.streams.full(caller)) is not None:
            await refuse(send, 503, full, ((b"retry-after", b"5"),))
            return
        with self.streams.opened(caller):
            await self._serve(session, scope, receive, send)

    async def _serve(self, session: str, scope: Scope, receive: Receive, send: Send) -> None:
        writer, reader = anyio.create_memory_object_stream[bytes](0)
        stream = _Stream()

        async def follow() -> None:
            async with writer:
                await self._follow(session, stream, writer.send)

        self._open.add(stream)
        try:
            async with writer, reader:
                await EventSourceResponse(reader, data_sender_callable=follow, headers=_HEADERS)(scope, receive, send)
        finally:
            self._open.discard(stream)

    def close(self) -> None:
        """End all streams."""
        for stream in self._open:
            stream.ended = True
            stream.wake.set()

    async def _follow(self, session: str, stream: _Stream, write: Write) -> None:
        def told(event: ServerEvent) -> None:
            if isinstance(event, ResourceUpdated) and event.uri in self.sessions.subscriptions(session, self.agent):
                stream.waiting[event.uri] = None
                stream.wake.set()

        def subscribed() -> None:
            want(self.sessions.subscriptions(session, self.agent))

        with self.changes.wanting() as want, self.sessions.following(session, subscribed):
            subscribed()
            stream.waiting = dict.fromkeys(self.sessions.subscriptions(session, self.agent))
            unsubscribe = self.bus.subscribe(told)
            try:
                while not stream.ended:
                    while stream.waiting:
                        await write(_frame(stream.waiting.popitem()[0]))
                    await self._woken(session, stream)
            finally:
                unsubscribe()

    async def _woken(self, session: str, stream: _Stream) -> None:
        try:
            async with asyncio.timeout(_KEEP_SECONDS):
                await stream.wake.wait()
        except TimeoutError:
            with suppress(PallasError):  # the next time
                await self.sessions.keep(session)
        stream.wake.clear()


def _frame(uri: str) -> bytes:
    return frame_of({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}}, None)


type Readable = Callable[[Any, Sequence[str]], Awaitable[list[str]]]


class Listening(ListenHandler):
    """Serves the streams. Resources that the caller cannot read are left out of what is acknowledged."""

    def __init__(
        self, bus: SubscriptionBus, streams: OpenStreams, changes: ResourceChanges, readable: Readable
    ) -> None:
        super().__init__(bus, max_subscriptions=streams.most)
        self._open = streams
        self._changes = changes
        self._readable = readable

    @override
    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        wanted = dict.fromkeys(params.notifications.resource_subscriptions or ())
        if len(wanted) > MOST_SUBSCRIPTIONS:
            message = f"A stream can have {MOST_SUBSCRIPTIONS} resources, not {len(wanted)}."
            raise MCPError(code=types.INVALID_PARAMS, message=message)
        caller = principal_of(scope_of(ctx))
        if (full := self._open.full(caller)) is not None:
            raise MCPError(code=types.INTERNAL_ERROR, message=full, data={"code": "busy"})
        with self._open.opened(caller), self._changes.wanting() as want:
            uris = await self._readable(ctx, list(wanted))
            honored = params.notifications.model_copy(update={"resource_subscriptions": uris})
            want(uris)
            return await super().__call__(ctx, params.model_copy(update={"notifications": honored}))
