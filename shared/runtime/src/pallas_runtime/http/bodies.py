"""Reads the body of a request before the application does, with a limit of its size.

How long it may take is a matter of the listener, for all services at once (`connection`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

from pallas_contracts.errors import Rejected

ARRIVING_SECONDS = 0.01
"""Seconds within which a usual body is here that did not arrive with its headers."""
ARRIVED = "pallas.arrived"
"""A scope has this once the body is here. Then no timer is needed."""


class TooLarge(Rejected):
    """The body is larger than the limit."""

    default_code = "too_large"


def declares_more(scope: Scope, limit: int) -> bool:
    """Whether the headers say that the body is larger than `limit` bytes."""
    declared = Headers(scope=scope).get("content-length", "0")
    return declared.isdigit() and int(declared) > limit


async def read_body(
    scope: Scope,
    receive: Receive,
    limit: int,
    *,
    before: Callable[[], Awaitable[object]] | None = None,
) -> bytes:
    """Read the whole body. `before` is awaited first if the body is not here yet: it may refuse the sender.

    Raises:
        TooLarge: it has more than `limit` bytes.
        ClientDisconnect: the client has disconnected, or the listener has refused the body.
    """
    too_large = TooLarge(f"the body is larger than {limit} bytes")
    if declares_more(scope, limit):
        raise too_large
    body = bytearray()
    while True:
        try:
            async with asyncio.timeout(ARRIVING_SECONDS if before is not None and ARRIVED not in scope else None):
                message = await receive()
        except TimeoutError:
            message: Message = {"type": "http.request", "more_body": True}
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > limit:
            raise too_large
        if not message.get("more_body", False):
            return bytes(body)
        if before is not None:
            await before()
            before = None


def lower_media_type(scope: Scope) -> None:
    """Write the media type of the body in small letters: it has no case, but the SDK compares it with one."""
    scope["headers"] = [
        (name, b";".join([kind.lower(), *more]) if name == b"content-type" else value)
        for name, value in scope["headers"]
        for kind, *more in [value.split(b";")]
    ]


def replayed(body: bytes, receive: Receive) -> Receive:
    """Replay a body that was read, then receive what follows."""
    pending = [body]

    async def receive_again() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return receive_again


async def while_connected(work: Awaitable[None], gone: Callable[[], Awaitable[None]]) -> None:
    """Do the work. When the caller disconnects (`gone()` returns), the work is cancelled and this returns."""
    task = asyncio.current_task()
    assert task is not None, "requests are served in tasks"
    left = False

    async def watch() -> None:
        nonlocal left
        await gone()
        left = True
        task.cancel()

    watching = asyncio.create_task(watch())
    try:
        await work
    except asyncio.CancelledError:
        if not left or task.uncancel():
            raise
    finally:
        watching.cancel()


async def disconnected(receive: Receive) -> None:
    """Wait until the caller disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass


@dataclass
class UnderWay:
    """The requests under way. When `stopping`, new ones are refused."""

    stopping: bool = False
    _count: int = 0
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._idle.set()

    @contextmanager
    def serving(self) -> Generator[None]:
        """Count a request."""
        self._count += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._idle.set()

    async def finish(self) -> None:
        """Refuse new requests, and wait for those under way."""
        self.stopping = True
        await self._idle.wait()
