"""What is served on an agent's own port, which may move or go while requests are answered there.

These get the time of a drain. Those that are left then are cut off: their callers have not closed the streams.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

_SCOPE_KEY = "pallas.own_port"


@dataclass
class DedicatedPort:
    """The application of one listener. `released` means that the listener is going."""

    serve: Callable[[Scope, Receive, Send], Awaitable[None]]
    released: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        scope[_SCOPE_KEY] = self
        await self.serve(scope, receive, send)


def is_released(scope: Scope) -> bool:
    """Whether the listener of a request is going, so that the request may be cut off."""
    port = scope.get(_SCOPE_KEY)
    return isinstance(port, DedicatedPort) and port.released
