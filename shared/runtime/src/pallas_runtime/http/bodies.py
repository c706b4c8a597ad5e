"""Reads the body of a request before the application does, with limits of size and time."""

import asyncio

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

from pallas_contracts.errors import Rejected

SILENT_SECONDS = 30.0


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


async def read_body(scope: Scope, receive: Receive, limit: int, *, silent: float = SILENT_SECONDS) -> bytes:
    """Read the whole body.

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
            async with asyncio.timeout(silent):
                message = await receive()
        except TimeoutError as error:
            raise TooSlow(f"the body stopped arriving: no data for {silent:g} s") from error
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        if len(body) > limit:
            raise too_large
        if not message.get("more_body", False):
            return bytes(body)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Replay a body that was read, then receive what follows."""
    pending = [body]

    async def receive_again() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return receive_again
