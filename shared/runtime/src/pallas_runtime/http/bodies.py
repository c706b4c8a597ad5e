"""Reads the body of a request before the application does, with limits of size and time."""

import asyncio
from collections.abc import Awaitable, Callable

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

from pallas_contracts.errors import Rejected

SILENT_SECONDS = 30.0
ARRIVING_SECONDS = 0.01
"""Seconds within which a usual body is here that did not arrive with its headers."""
ARRIVED = "pallas.arrived"
"""A scope has this once the body is here. Then no timer is needed."""


class TooLarge(Rejected):
    """The body is larger than the limit."""

    default_code = "too_large"


class TooSlow(Rejected):
    """The body stopped arriving."""

    default_code = "too_slow"


def declares_more(scope: Scope, limit: int) -> bool:
    """Whether the headers say that the body is larger than `limit` bytes."""
    declared = Headers(scope=scope).get("content-length", "0")
    return declared.isdigit() and int(declared) > limit


async def read_body(
    scope: Scope,
    receive: Receive,
    limit: int,
    *,
    silent: float = SILENT_SECONDS,
    before: Callable[[], Awaitable[object]] | None = None,
) -> bytes:
    """Read the whole body. `before` is awaited first if the body is not here yet: it may refuse the sender.

    Raises:
        TooLarge: it has more than `limit` bytes.
        TooSlow: `silent` seconds have passed without a byte.
        ClientDisconnect: the client has disconnected.
    """
    too_large = TooLarge(f"the body is larger than {limit} bytes")
    if declares_more(scope, limit):
        raise too_large
    body = bytearray()
    while True:
        try:
            async with asyncio.timeout(None if ARRIVED in scope else ARRIVING_SECONDS if before else silent):
                message = await receive()
        except TimeoutError as error:
            if before is None:
                raise TooSlow(f"the body stopped arriving: no data for {silent:g} s") from error
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
