"""Allows any web page to read the inner application (CORS), and answers HEAD wherever it answers GET.

The headers are sent with and without an `Origin`, so that a shared cache may keep the answer.
"""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ORIGIN = [(b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", b"ETag")]
_PREFLIGHT = [
    *_ORIGIN,
    (b"access-control-allow-methods", b"GET, HEAD, OPTIONS"),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-max-age", b"86400"),
]


class Cors:
    """The ASGI application around `inner`, which sees GET requests only."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        if scope["method"] == "OPTIONS":
            await send({"type": "http.response.start", "status": 204, "headers": _PREFLIGHT})
            await send({"type": "http.response.body"})
            return

        async def send_open(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *_ORIGIN]}
            await send(message)

        # The server below drops the body of an answer to HEAD by itself.
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        await self._inner({**scope, "method": method}, receive, send_open)
