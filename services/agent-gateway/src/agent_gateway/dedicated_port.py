"""The application of an agent's dedicated port, which may change or be released while requests are served there.

These requests may finish within the drain time. The rest are cut off, which cancels no turn: no caller has left.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

_SCOPE_KEY = "pallas.dedicated_port"


@dataclass
class DedicatedPort:
    """The application of one listener. `released` means that the listener is closing."""

    serve: Callable[[Scope, Receive, Send], Awaitable[None]]
    released: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        scope[_SCOPE_KEY] = self
        await self.serve(scope, receive, send)


def is_released(scope: Scope) -> bool:
    """Whether the listener of a request is closing, so that the request may be cut off."""
    port = scope.get(_SCOPE_KEY)
    return isinstance(port, DedicatedPort) and port.released
