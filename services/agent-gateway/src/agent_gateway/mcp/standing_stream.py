"""The standing stream of a handshake-era session: `GET` without `Last-Event-ID`, at any gateway.

It has changes of the resources to which the session has subscribed. A stream that opens, perhaps after another one
broke, begins with all of them, as their changes may have been missed.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

import anyio
from mcp.server.streamable_http import check_accept_headers
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated, ServerEvent
from mcp.server.transport_security import TransportSecurityMiddleware
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from agent_gateway.answers.refusals import refuse
from agent_gateway.caller import principal_of
from agent_gateway.handshake.event_stream import Write, frame_of
from agent_gateway.handshake.sessions import Sessions
from agent_gateway.mcp.resource_changes import ResourceChanges
from agent_gateway.open_streams import OpenStreams
from pallas_contracts.errors import PallasError

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
