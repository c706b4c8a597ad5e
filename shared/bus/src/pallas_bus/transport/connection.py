"""One connection of one service to NATS, which survives restarts of the server.

Everything that must be re-issued after a reconnect (pulls, watches, cursors) registers itself with `on_reconnect`;
nats-py by itself leaves consumers blind for many seconds. Handlers never see any of this.
"""

import asyncio
import json
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from pallas_bus.transport.access import Access
from pallas_bus.transport.client import ClosingClient
from pallas_bus.transport.errors import (
    Stored,
    api_error,
    stored,
    too_large,
    translated,
)
from pallas_bus.transport.polling import poll_now
from pallas_bus.transport.retry import retry_while_unavailable
from pallas_contracts.catalog import PER_TEAM
from pallas_contracts.errors import Unavailable

log = logging.getLogger(__name__)

_IN_FLIGHT_PAUSE = 0.005
_HEADER_FRAME = 16
"""Bytes that a block of headers takes besides their names and values."""
_REFUSED = "authorization violation"
PENDING_BYTES = 64 * 1024 * 1024


@dataclass
class Bus:
    """The connection, with acknowledged publishing. Made by `connect`.

    `service` is the catalogue's name of who speaks; `instance` tells replicas apart.
    """

    service: str
    instance: str
    client: Client
    timeout: float = 5.0
    _acks: dict[str, asyncio.Future[Msg]] = field(default_factory=dict[str, "asyncio.Future[Msg]"])
    _ack_prefix: str = ""
    _ack_number: int = 0
    _on_reconnect: list[Callable[[], Coroutine[Any, Any, None]]] = field(
        default_factory=list[Callable[[], Coroutine[Any, Any, None]]]
    )
    _tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    breaks: int = 0
    """How often the connection has broken: what was sent without waiting may be lost whenever this moves.

    A put that times out does not move it. The broker may be slow, and only who put it is unsure what has become of it.
    """

    @property
    def connected(self) -> bool:
        """Whether the broker can be spoken to right now."""
        return self.client.is_connected

    @property
    def per_team(self) -> bool:
        """Whether this may read only what the subjects of its requests name, which the broker can check."""
        return self.service in PER_TEAM

    @property
    def max_payload(self) -> int:
        """The broker's limit for one message, in bytes."""
        return self.client.max_payload

    def on_reconnect(self, action: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
        """Run `action` after every reconnect, until it works (`poll_now`); returns what takes it off again."""
        self._on_reconnect.append(action)

        def remove() -> None:
            with suppress(ValueError):
                self._on_reconnect.remove(action)

        return remove

    def spawn(
        self, work: Coroutine[Any, Any, None], *, at_once: bool = False, context: Context | None = None
    ) -> asyncio.Task[None]:
        """Run `work` as a task that is kept alive, logged when it fails and cancelled when the bus closes.

        `at_once` it begins before this returns, which saves a round of the event loop. `context` is given when the work
        is about something else than what is done here: its log lines and messages are of that turn and trace.
        """
        task = asyncio.Task(work, loop=asyncio.get_running_loop(), eager_start=at_once, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._forget, context=context)
        return task

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a background task failed", exc_info=error)

    async def send(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None, reply: str = ""
    ) -> None:
        """Publish without waiting for anything.

        Raises:
            Unavailable: the connection is closed, or its buffer is full while it reconnects.
            Rejected: payload and headers are over the broker's limit, for which it would end the connection.
        """
        block = _HEADER_FRAME + sum(len(name) + len(value) + 4 for name, value in headers.items()) if headers else 0
        if len(payload) + block > self.max_payload:
            raise too_large(f"publish to {subject!r}")
        try:
            await self.client.publish(subject, payload, reply=reply, headers=dict(headers) if headers else None)
        except NatsError as error:
            raise translated(error, f"publish to {subject!r}") from error

    async def flush(self) -> None:
        """Wait until the broker has taken what was published so far.

        Raises:
            Unavailable: it does not answer.
        """
        try:
            await self.client.flush()
        except (NatsError, TimeoutError) as error:
            raise translated(error, "flush") from error

    async def put(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> Stored:
        """Publish to the stream of `subject` and wait until the broker has stored it.

        A replicated stream may ask to wait for another message with the same expectation; that is done here.

        Raises:
            Conflict: an expected sequence did not match (`wrong_last_sequence`).
            Unavailable: no answer within `timeout`, no such stream, or the stream is full (`queue_full`).
            Rejected: the broker refuses the message for good.
        """
        until = time.monotonic() + (timeout or self.timeout)
        while True:
            try:
                return await self._put(subject, payload, headers, timeout)
            except Unavailable as error:
                if error.code != "in_flight" or time.monotonic() > until:
                    raise
                await asyncio.sleep(_IN_FLIGHT_PAUSE)

    async def _put(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None, timeout: float | None
    ) -> Stored:
        self._ack_number += 1
        token = str(self._ack_number)
        answer: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._acks[token] = answer
        try:
            await self.send(subject, payload, headers, reply=self._ack_prefix + token)
            async with asyncio.timeout(timeout or self.timeout):
                message = await answer
        except TimeoutError as error:
            raise Unavailable(f"the broker did not acknowledge a message on {subject!r} in time") from error
        except ConnectionError as error:
            raise Unavailable(f"the connection broke while a message on {subject!r} was being stored") from error
        finally:
            del self._acks[token]
        return stored(subject, message)

    async def api(self, subject: str, body: object, timeout: float | None = None) -> dict[str, Any]:
        """Call the JetStream API.

        Raises:
            Unavailable: nobody answered.
            PallasError: the API answered with an error; `facts["err_code"]` has its code.
        """
        message = await self.request(f"$JS.API.{subject}", json.dumps(body).encode(), timeout=timeout)
        answer: dict[str, Any] = json.loads(message.data)
        if "error" in answer:
            raise api_error(answer["error"], subject)
        return answer

    async def request(
        self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> Msg:
        """Ask and wait for one answer.

        Raises:
            Unavailable: nobody listens (`no_responders`) or nobody answered in time.
        """
        try:
            return await self.client.request(
                subject, payload, timeout=timeout or self.timeout, headers=dict(headers) if headers else None
            )
        except NoRespondersError as error:
            raise Unavailable(f"nobody answers on {subject!r}", code="no_responders") from error
        except (NatsError, TimeoutError) as error:
            raise translated(error, f"request to {subject!r}") from error

    async def subscribe(self, subject: str, heard: Callable[[Msg], Awaitable[None]]) -> Subscription:
        """Call `heard` for every message on `subject`, one after the other.

        Raises:
            Unavailable: the connection is closed.
        """
        try:
            return await self.client.subscribe(  # pyright: ignore[reportUnknownMemberType] - untyped future in nats-py
                subject, cb=heard, pending_bytes_limit=PENDING_BYTES
            )
        except NatsError as error:
            raise translated(error, f"subscribe to {subject!r}") from error

    async def unsubscribe(self, subscription: Subscription) -> None:
        """Hear no more of it. A connection that is closed has no subscriptions, so that is no error."""
        with suppress(NatsError):
            await subscription.unsubscribe()

    async def start(self) -> None:
        """Open the inbox on which acknowledgements arrive."""
        self._ack_prefix = self.client.new_inbox() + "."
        await self.subscribe(self._ack_prefix + "*", self._acknowledged)

    async def _acknowledged(self, message: Msg) -> None:
        waiting = self._acks.get(message.subject[len(self._ack_prefix) :])
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def broken(self) -> None:
        """The connection has broken: whoever waits for a confirmation will not get it any more."""
        self.breaks += 1
        for waiting in self._acks.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError())

    async def reconnected(self) -> None:
        """Run what asked to be run after a reconnect; one failure does not keep the others from running."""
        log.info("reconnected", extra={"server": _server(self.client)})
        for action in list(self._on_reconnect):
            self.spawn(poll_now(action))

    async def stop(self) -> None:
        """Stop background work, flush what was published and close."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not self.client.is_closed:
            with suppress(NatsError, TimeoutError, OSError):
                if self.client.is_connected:
                    await self.client.flush(timeout=2)
            await self.client.close()
            self.closed.set()


def _server(client: Client) -> str | None:
    url = client.connected_url
    return url.netloc.rpartition("@")[2] if url else None


def _reason(error: Exception) -> str:
    """Why there is no connection, as far as that helps whoever runs this."""
    if _REFUSED in str(error).lower():
        return "the broker rejects its credentials"
    return type(error).__name__


@asynccontextmanager
async def connect(
    access: Access | str,
    service: str,
    *,
    instance: str | None = None,
    timeout: float = 5.0,
    options: Mapping[str, Any] | None = None,
) -> AsyncGenerator[Bus]:
    """Connect to NATS and stay connected; an address alone is one for nobody in particular.

    The first connection is tried for `timeout` seconds.

    Raises:
        Unavailable: no server could be reached, or none lets this in.
        Rejected: the seed or the certificates cannot be read.
    """
    client = ClosingClient()
    given = (Access(access) if isinstance(access, str) else access).options(service)
    bus = Bus(service, instance or f"{service}-{uuid.uuid4().hex[:8]}", client, timeout)

    async def disconnected() -> None:
        log.warning("disconnected from the broker")
        bus.broken()

    async def failed(error: Exception) -> None:
        # While it reconnects every try fails like this; that it was disconnected is in the log already.
        level = logging.DEBUG if client.is_reconnecting else logging.WARNING
        log.log(level, "broker error", extra={"error": f"{type(error).__name__}: {error}"})

    async def closed() -> None:
        bus.closed.set()

    given["error_cb"] = failed

    try:
        async with asyncio.timeout(timeout):
            await client.connect(
                name=bus.instance,
                allow_reconnect=True,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.1,  # pyright: ignore[reportArgumentType] - seconds, fractions work
                ping_interval=10,
                max_outstanding_pings=2,
                pending_size=PENDING_BYTES,
                connect_timeout=2,
                disconnected_cb=disconnected,
                reconnected_cb=bus.reconnected,
                closed_cb=closed,
                **{**given, **(options or {})},
            )
            await bus.start()
    except (TimeoutError, OSError, NatsError) as error:
        await client.close()
        reason = _reason(client.last_error or error)
        raise Unavailable(f"cannot connect to NATS for {service}: {reason}") from error
    try:
        yield bus
    finally:
        await bus.stop()


@asynccontextmanager
async def connect_when_possible(access: Access | str, service: str, *, instance: str) -> AsyncGenerator[Bus]:
    """Connect as `connect` does, but retry until that succeeds: a service may start before its broker."""
    async with AsyncExitStack() as stack:
        yield await retry_while_unavailable(
            lambda: stack.enter_async_context(connect(access, service, instance=instance)),
            "connect to the broker",
            deadline=None,
        )
