"""A service's connection to NATS. It survives restarts of the server.

What must be repeated after a reconnect (pulls, reads of what was missed) is registered with `on_reconnect`. nats-py
alone would notice only after many seconds that a consumer gets nothing any more.
"""

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import Context
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, override

from nats.aio.client import Client
from nats.aio.msg import Msg as Msg
from nats.aio.subscription import Subscription as Subscription
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError

from pallas_bus.access import Access
from pallas_bus.client import BusClient
from pallas_bus.errors import (
    Poll,
    Rarely,
    Stored,
    api_error,
    not_connected,
    poll_now,
    retry_while_unavailable,
    stored,
    translated,
)
from pallas_contracts.errors import Unavailable
from pallas_contracts.message import utc_now

log = logging.getLogger(__name__)

_IN_FLIGHT_PAUSE = 0.005
PENDING_BYTES = 64 * 1024 * 1024
"""Bytes that are buffered, of messages to send while reconnecting, and of received messages for each subscription."""


@dataclass
class Bus:
    """The connection, with acknowledged publishing. Made by `connect`.

    `service` is the name of the service in the catalogue, `instance` that of the replica. `timeout` is in seconds.
    """

    service: str
    instance: str
    client: Client
    timeout: float = 5.0
    _acks: dict[str, asyncio.Future[Msg]] = field(default_factory=dict[str, "asyncio.Future[Msg]"])
    _ack_prefix: str = ""
    _ack_number: int = 0
    _on_reconnect: list[Poll] = field(default_factory=list[Poll])
    _tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])
    used: dict[str, dict[str, Any] | None] = field(default_factory=dict[str, "dict[str, Any] | None"])
    """The streams that this process uses by name, each with its configuration if this service declares it."""
    seen: set[str] = field(default_factory=set[str])
    """Those that were there once."""
    missed: dict[str, float] = field(default_factory=dict[str, float])
    """When each that was lost was first seen missing, the last time, on the monotonic clock."""
    remade: dict[str, datetime] = field(default_factory=dict[str, datetime])
    """When those that were lost were there again."""
    _on_made_again: list[tuple[str, Poll]] = field(default_factory=list[tuple[str, Poll]])
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    rarely: Rarely = field(default_factory=Rarely)
    breaks: int = 0
    """How often the connection has broken. Each time, messages that were sent without waiting may be lost.

    A put that times out is not counted: the broker may be slow, and only that message is uncertain.
    """
    one_by_one: bool = False
    """Whether the broker has refused a message because another one with the same expected position was under way.

    A replicated stream stores such messages one at a time. A writer that waits for the first before it sends the second
    saves a refusal and a pause.
    """

    @property
    def connected(self) -> bool:
        """Whether there is a connection now."""
        return self.client.is_connected

    @property
    def max_payload(self) -> int:
        """The broker's limit for one message, in bytes."""
        return self.client.max_payload

    def on_reconnect(self, action: Poll) -> Callable[[], None]:
        """Run `action` after every reconnect, retrying until it succeeds. Returns a function that removes it."""
        self._on_reconnect.append(action)

        def remove() -> None:
            with suppress(ValueError):
                self._on_reconnect.remove(action)

        return remove

    def on_made_again(self, stream: str, action: Poll) -> Callable[[], None]:
        """Run `action` whenever a stream that was missing is there again. Returns a function that removes it."""
        entry = stream, action
        self._on_made_again.append(entry)
        return lambda: self._on_made_again.remove(entry)

    def made_again(self, streams: Collection[str]) -> None:
        """Streams that were missing are there again: run the actions of `on_made_again`, each in a task of its own."""
        self.remade |= dict.fromkeys(streams, utc_now())
        for stream, action in list(self._on_made_again):
            if stream in streams:
                self.spawn(poll_now(action))

    def spawn(
        self, work: Coroutine[Any, Any, None], *, at_once: bool = False, context: Context | None = None
    ) -> asyncio.Task[None]:
        """Run `work` in a task. Its failure is logged, and it is cancelled when the bus closes.

        `at_once`: it begins before this returns, which saves a pass of the event loop. `context` is the one of the turn
        and trace that the work belongs to, if that is not the caller's.
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
        """Publish without waiting for the broker.

        Raises:
            Unavailable: the connection is closed, or its buffer is full while it reconnects.
            Rejected: payload and headers exceed the broker's limit (`too_large`); it would close the connection.
        """
        try:
            await self.client.publish(subject, payload, reply=reply, headers=dict(headers) if headers else None)
        except NatsError as error:
            raise translated(error, f"publish to {subject!r}") from error

    async def flush(self) -> None:
        """Wait until the broker has received everything that was published so far.

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
        """Publish to the stream of `subject` and wait until the broker has stored the message.

        `timeout` is in seconds. While a replicated stream stores another message with the same expectation, this
        retries.

        Raises:
            Conflict: an expected sequence did not match (`wrong_last_sequence`).
            Unavailable: no answer within `timeout`, no such stream, or the stream is full (`queue_full`).
            Rejected: the broker refuses the message for good.
        """
        loop, seconds = asyncio.get_running_loop(), timeout or self.timeout
        until = loop.time() + seconds
        while True:
            self._ack_number += 1
            token = str(self._ack_number)
            answer: asyncio.Future[Msg] = loop.create_future()
            self._acks[token] = answer
            late = loop.call_later(seconds, _fail, answer, TimeoutError())
            try:
                await self.client.publish(
                    subject, payload, self._ack_prefix + token, headers=dict(headers) if headers else None
                )
                return stored(subject, await answer)
            except NatsError as error:
                raise translated(error, f"publish to {subject!r}") from error
            except TimeoutError as error:
                raise Unavailable(f"the broker did not acknowledge a message on {subject!r} in time") from error
            except ConnectionError as error:
                raise Unavailable(f"the connection broke while a message on {subject!r} was being stored") from error
            except Unavailable as error:
                if error.code != "in_flight" or loop.time() > until:
                    raise
                self.one_by_one = True
            finally:
                late.cancel()
                del self._acks[token]
            await asyncio.sleep(_IN_FLIGHT_PAUSE)

    async def api(self, subject: str, body: object, timeout: float | None = None) -> dict[str, Any]:
        """Call the JetStream API and return its answer; `timeout` is in seconds.

        Raises:
            Unavailable: the broker did not answer.
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
        """Send a request and return the first reply; `timeout` is in seconds.

        Raises:
            Unavailable: nobody is subscribed (`no_responders`), or there was no reply in time.
        """
        try:
            return await self.client.request(
                subject, payload, timeout=timeout or self.timeout, headers=dict(headers) if headers else None
            )
        except NoRespondersError as error:
            raise Unavailable(f"nobody answers on {subject!r}", code="no_responders") from error
        except (NatsError, TimeoutError) as error:
            raise translated(error, f"request to {subject!r}") from error

    async def subscribe(self, subject: str, on_message: Callable[[Msg], Awaitable[None]]) -> Subscription:
        """Call `on_message` for every message on `subject` (wildcards allowed), one after the other.

        Raises:
            Unavailable: the connection is closed.
        """
        return await self._subscribe(subject, cb=on_message, pending_bytes_limit=PENDING_BYTES)

    async def listen(self, subject: str, on_message: Callable[[Msg], None]) -> Subscription:
        """Call `on_message` for every message on `subject` as it is read, which costs less than `subscribe`.

        Raises:
            Unavailable: the connection is closed.
        """
        return await self._subscribe(subject, future=_Listener(on_message))

    async def _subscribe(self, subject: str, **how: Any) -> Subscription:
        try:
            return await self.client.subscribe(  # pyright: ignore[reportUnknownMemberType] - untyped future in nats-py
                subject, **how
            )
        except NatsError as error:
            raise translated(error, f"subscribe to {subject!r}") from error

    async def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription. On a closed connection this does nothing."""
        with suppress(NatsError):
            await subscription.unsubscribe()

    async def start(self) -> None:
        """Open the inbox on which acknowledgements arrive."""
        self._ack_prefix = self.client.new_inbox() + "."
        await self.listen(self._ack_prefix + "*", self._acknowledged)

    def _acknowledged(self, message: Msg) -> None:
        waiting = self._acks.get(message.subject[len(self._ack_prefix) :])
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    def broken(self) -> None:
        """The connection has broken: fail all puts that wait for their acknowledgement."""
        self.breaks += 1
        for waiting in self._acks.values():
            _fail(waiting, ConnectionError())

    async def reconnected(self) -> None:
        """Run the actions of `on_reconnect`, each in a task of its own."""
        log.info("reconnected", extra={"server": _server(self.client)})
        for action in list(self._on_reconnect):
            self.spawn(poll_now(action))

    async def stop(self) -> None:
        """Cancel background tasks, flush published messages and close the connection."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not self.client.is_closed:
            with suppress(NatsError, TimeoutError, OSError):
                if self.client.is_connected:
                    await self.client.flush(timeout=2)
            await self.client.close()
            self.closed.set()


class _Listener(asyncio.Future[Msg]):
    """Gets the messages of a subscription. nats-py takes it for the future of a request, and starts no task."""

    def __init__(self, on_message: Callable[[Msg], None]) -> None:
        super().__init__()
        self._on_message = on_message

    @override
    def set_result(self, result: Msg, /) -> None:
        try:
            self._on_message(result)
        except Exception:  # the messages behind it go on
            log.exception("a message could not be handled", extra={"subject": result.subject})


def _fail(answer: asyncio.Future[Msg], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def _server(client: Client) -> str | None:
    url = client.connected_url
    return url.netloc.rpartition("@")[2] if url else None


@asynccontextmanager
async def connect(
    access: Access | str,
    service: str,
    *,
    instance: str | None = None,
    timeout: float = 5.0,
    options: Mapping[str, Any] | None = None,
) -> AsyncGenerator[Bus]:
    """Connect to NATS and stay connected. An address alone means a connection without a user.

    `timeout` limits the first connection, and later each put and request, in seconds.

    Raises:
        Unavailable: no server can be reached, or all reject the credentials.
        Rejected: the seed or the certificates cannot be read (`bad_settings`).
    """
    client = BusClient()
    access = Access(access) if isinstance(access, str) else access
    given = access.options(service)
    bus = Bus(service, instance or f"{service}-{uuid.uuid4().hex[:8]}", client, timeout)

    async def disconnected() -> None:
        log.warning("disconnected from the broker")
        bus.broken()

    async def failed(error: Exception) -> None:
        # Every failed attempt to reconnect is reported here; "disconnected" is logged once.
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
        raise not_connected(given["servers"], service, client.last_error or error) from error
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
