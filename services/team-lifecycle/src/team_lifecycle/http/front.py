"""Wraps the application: gives each request a correlation id, identifies its sender and reads its body.

Each router depends on the account that may use it. But FastAPI reads the body before it runs dependencies. So the
sender is identified here, and the body of an unknown sender is not read. Large or slow bodies are refused before they
take memory.
"""

import asyncio
import re
import uuid
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pallas_contracts.errors import Unavailable
from pallas_credentials.accounts import Accounts
from pallas_runtime.http.bodies import TooLarge, read_body, replayed
from pallas_runtime.http.problems import problem, problem_of
from pallas_runtime.logs import log_context
from team_lifecycle.http.errors import RETRY_AFTER_SECONDS
from team_lifecycle.model import STRANGER, Who

LARGEST_BODY = 256 * 1024
BODY_SECONDS = 10.0
REQUEST_ID = "x-request-id"
_ID = re.compile(r"[!-~]{1,128}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


class Front:
    """The ASGI application around `inner`. It sets `who` in the state of each request."""

    def __init__(self, inner: ASGIApp, accounts: Accounts) -> None:
        self._inner = inner
        self._accounts = accounts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        correlation = correlation_of(Headers(scope=scope))

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID] = correlation
                headers["cache-control"] = headers.get("cache-control", "no-store")
            await send(message)

        with log_context(correlation=correlation):
            await self._serve(scope, receive, send_named, correlation)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, correlation: str) -> None:
        address, _ = scope.get("client") or ("", 0)
        try:
            account = await self._accounts.who(Headers(scope=scope).get("authorization"), address)
        except Unavailable as error:
            await problem_of(error, retry_after=RETRY_AFTER_SECONDS)(scope, receive, send)
            return
        body = b"" if account is None else await _read(scope, receive)
        if isinstance(body, Response):
            await body(scope, receive, send)
            return
        state: dict[str, Any] = {**scope.get("state", {}), "who": Who(account or STRANGER, correlation)}
        await self._inner({**scope, "state": state}, replayed(body, receive), send)


def correlation_of(headers: Headers) -> str:
    """The request id of the caller, else its trace id, else a new id."""
    given = headers.get(REQUEST_ID, "")
    if _ID.fullmatch(given):
        return given
    traced = _TRACEPARENT.fullmatch(headers.get("traceparent", ""))
    return traced[1] if traced else uuid.uuid4().hex


async def _read(scope: Scope, receive: Receive) -> bytes | Response:
    """The whole body, or the refusal."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await read_body(scope, receive, LARGEST_BODY)
    except TooLarge as error:
        return problem(413, error.message, error.code)
    except ClientDisconnect:
        return problem(400, "the body is incomplete", "incomplete")
    except TimeoutError:
        return problem(408, f"the body did not arrive within {BODY_SECONDS:g} s", "too_slow")
