"""The demo server with the handshake revisions only: sessions, and no `server/discover`."""

import sys

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from pallas_demo.server import build_server


class HandshakeOnly:
    """Refuses requests that only the modern revision has, and passes on the others."""

    def __init__(self) -> None:
        self._inner = build_server().streamable_http_app(host="127.0.0.1")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._inner(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await request.body()
        if b'"server/discover"' in body:
            answer: Response = JSONResponse({"error": "no such method"}, status_code=400)
            await answer(scope, receive, send)
            return
        # The body is read already, so it is passed on; later messages come from the connection.
        given = False

        async def replay() -> dict[str, object]:
            nonlocal given
            if given:
                return dict(await receive())
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._inner(scope, replay, send)


if __name__ == "__main__":
    uvicorn.run(HandshakeOnly(), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
