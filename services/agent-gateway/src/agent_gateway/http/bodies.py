"""Bodies of requests that are looked at before the SDK has them: of the handshake era, and to find a caller's trace."""

import json
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any, cast

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope

_PEEK_LIMIT = 64 * 1024


@dataclass(frozen=True)
class Body:
    """A body that was received, and the messages that brought it. `short` is None when it is too long to look at."""

    messages: list[Message]
    short: bytes | None

    @property
    def message(self) -> dict[str, Any]:
        """The JSON-RPC message; empty when that is not to be seen."""
        try:
            message: Any = json.loads(self.short or b"")
        except (ValueError, RecursionError):
            return {}
        return cast("dict[str, Any]", message) if isinstance(message, dict) else {}  # JSON objects have string keys

    @property
    def may_call(self) -> bool:
        """Whether this may be a `tools/call`; what cannot be looked at may be one."""
        return self.message.get("method", "tools/call") == "tools/call"

    @property
    def whole(self) -> bytes:
        """All that was received."""
        return b"".join(message.get("body", b"") for message in self.messages)

    def replayed(self, receive: Receive) -> Receive:
        """Receive the body once more, then what follows."""
        pending = self.messages[::-1]

        async def receiving() -> MutableMapping[str, Any]:
            return pending.pop() if pending else await receive()

        return receiving


def declares_more(scope: Scope, limit: int) -> bool:
    """Whether the headers say that the body is larger than `limit` bytes."""
    declared = Headers(scope=scope).get("content-length", "0")
    return declared.isdigit() and int(declared) > limit


async def read_body(receive: Receive, limit: int) -> Body:
    """Receive the body, or a little more of it than `limit`.

    Here and not in the SDK, which logs a traceback for a client that leaves meanwhile.

    Raises:
        ClientDisconnect: the client left before it was through.
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
