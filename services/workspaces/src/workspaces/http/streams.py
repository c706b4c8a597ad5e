"""Streams of events do not outlive the session of their reader, however slowly it reads."""

import asyncio
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pallas_runtime.http.bodies import while_connected
from workspaces.access.sessions import LoggedIn, Sessions
from workspaces.live.hub import Hub

EVENTS = "/events"
"""What the paths of streams end with."""

_LAST_WORD_SECONDS = 1.0


def with_sessions(inner: ASGIApp, sessions: Sessions, hub: Hub) -> ASGIApp:
    """End a stream when the session ends that asked for it. The state of a request must have `session`."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        session: LoggedIn | None = scope["state"]["session"]
        if session is None or not scope["path"].endswith(EVENTS):
            await inner(scope, receive, send)
            return
        started = ended = False

        async def noting(message: Message) -> None:
            nonlocal started, ended
            started = True
            await send(message)
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)

        digest = session.digest
        await while_connected(inner(scope, receive, noting), lambda: sessions.ended(digest, hub))
        if started and not ended:
            with suppress(TimeoutError):  # a reader that does not read is cut off
                async with asyncio.timeout(_LAST_WORD_SECONDS):
                    await send({"type": "http.response.body", "body": b""})

    return app
