"""Request bodies that are read before the SDK gets them: in the handshake era, and to find a caller's trace."""

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from pallas_contracts.errors import Rejected
from pallas_jsonrpc.strict_json import loads

_PEEK_LIMIT = 64 * 1024


@dataclass(frozen=True)
class Body:
    """A received body as ASGI messages. `short` is the body, or None when it is too long to be parsed here."""

    messages: list[Message]
    short: bytes | None

    @property
    def message(self) -> dict[str, Any]:
        """The JSON-RPC message; empty when the body is too long or not a JSON object."""
        try:
            message = loads(self.short or b"")
        except Rejected:
            return {}
        return message if isinstance(message, dict) else {}

    @property
    def may_call(self) -> bool:
        """Whether this may be a `tools/call`; a body that cannot be parsed may be one."""
        return self.message.get("method", "tools/call") == "tools/call"

    @property
    def whole(self) -> bytes:
        """The received bytes."""
        return b"".join(message.get("body", b"") for message in self.messages)

    def replayed(self, receive: Receive) -> Receive:
        """An ASGI `receive` that returns these messages again, then those that follow."""
        pending = self.messages[::-1]

        async def receiving() -> MutableMapping[str, Any]:
            return pending.pop() if pending else await receive()

        return receiving


async def read_body(receive: Receive, limit: int) -> Body:
    """Receive the body; stop once it is longer than `limit`.

    The SDK would log a traceback for a client that disconnects meanwhile.

    Raises:
        ClientDisconnect: the client disconnected before the body was complete.
    """
    messages: list[Message] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        messages.append(message)
        size += len(message.get("body", b""))
        if not message.get("more_body") or size > limit:
            parts: list[bytes] = [message.get("body", b"") for message in messages]
            return Body(messages, b"".join(parts) if size <= _PEEK_LIMIT else None)
