"""Switches that make the stand-in fail in the ways that Coder and the way to it can fail. For tests only."""

import asyncio
import re
from collections.abc import Callable
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

type Mode = Literal["none", "refuse", "hang", "reset", "bad_gateway", "html", "expired", "too_many", "lose_answer"]

SIGNED_OUT = "You are signed out or your session has expired. Please sign in again to continue."
_PAGE = "<!DOCTYPE html><html><head><title>{0}</title></head><body><h1>{0}</h1></body></html>"
_ANSWERS: dict[str, Response] = {
    "bad_gateway": HTMLResponse(_PAGE.format("502 Bad Gateway"), 502),
    "html": HTMLResponse(_PAGE.format("Sign in"), 200),
    "expired": JSONResponse({"message": SIGNED_OUT, "detail": "API key has expired."}, 401),
    "too_many": JSONResponse(
        {"message": "You've been rate limited for sending more than 512 requests in 1m0s."}, 429, {"Retry-After": "1"}
    ),
}


class Fault(BaseModel):
    """What goes wrong, for which paths (a regular expression), how many times, and for how many seconds.

    `lose_answer` concerns answers to typed messages only: with a `delay` they come later, else never.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    mode: Mode = "none"
    path: str = ""
    times: int | None = None
    seconds: float | None = None
    delay: float = 0.0
    state_lag: float = 0.0


class Faults:
    """The fault that is on, as a layer around the application. `reset` breaks the connection of a request."""

    def __init__(self, app: ASGIApp, reset: Callable[[Scope], None]) -> None:
        self._app, self._reset = app, reset
        self.set(Fault())

    def set(self, fault: Fault) -> Self:
        """Put a fault in place of the one that was; requests that hang are broken."""
        self.fault, self._left = fault, fault.times
        self._over, old = asyncio.Event(), getattr(self, "_over", None)
        if old:
            old.set()
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or fail."""
        fault, over = self.fault, self._over
        if scope["type"] != "http" or scope["path"].startswith("/_stand-in/") or not self._strikes(scope):
            await self._app(scope, receive, send)
        elif fault.mode in _ANSWERS:
            await _ANSWERS[fault.mode](scope, receive, send)
        elif fault.mode == "lose_answer":
            await self._late(fault, scope, receive, send)
        else:
            if fault.mode == "hang":
                await over.wait()
            self._reset(scope)

    def _strikes(self, scope: Scope) -> bool:
        fault = self.fault
        if fault.mode in ("none", "refuse") or self._left == 0 or not re.search(fault.path, scope["path"]):
            return False
        if fault.mode == "lose_answer" and not scope["path"].endswith(("/message", "/send")):
            return False
        if self._left is not None:
            self._left -= 1
        return True

    async def _late(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        """Do what is asked, then answer late or break the connection."""
        kept: list[Message] = []

        async def keep(message: Message) -> None:
            kept.append(message)

        await self._app(scope, receive, keep)
        if fault.delay:
            await asyncio.sleep(fault.delay)
            for message in kept:
                await send(message)
        else:
            self._reset(scope)
