"""What happens to a request before a route sees it: it gets a correlation id, its account is checked, its body is read.

The account comes before anything of the request is looked at, so a stranger learns nothing of routes or fields. Bodies
are small; one that is large or slow is refused before it takes memory.
"""

import asyncio
import logging
import re
import uuid
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pallas_contracts.errors import Unavailable
from pallas_credentials.accounts import Account
from pallas_runtime.logs import log_context
from team_lifecycle.entry.errors import problem, unavailable
from team_lifecycle.model import Who

log = logging.getLogger(__name__)

LARGEST_BODY = 256 * 1024
BODY_SECONDS = 10.0
REQUEST_ID = "x-request-id"
_ID = re.compile(r"[!-~]{1,128}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


class Front:
    """The ASGI application around `inner`. `accounts` maps prefixes of paths to who may use them."""

    def __init__(self, inner: ASGIApp, accounts: Mapping[str, Account]) -> None:
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
        path: str = scope["path"]
        account = next((one for prefix, one in self._accounts.items() if path.startswith(prefix)), None)
        if account is not None:
            try:
                welcome = await account.lets_in(Headers(scope=scope).get("authorization"))
            except Unavailable as error:
                await unavailable(error)(scope, receive, send)
                return
            if not welcome:
                log.warning("refused a request", extra={"account": account.name})
                await _who_are_you()(scope, receive, send)
                return
        body = await _read(scope, receive)
        if isinstance(body, Response):
            await body(scope, receive, send)
            return
        state: dict[str, Any] = {**scope.get("state", {}), "who": Who(account.name if account else "-", correlation)}
        await self._inner({**scope, "state": state}, _replay(body, receive), send)


def correlation_of(headers: Headers) -> str:
    """The caller's request id, else its trace, else a new id."""
    given = headers.get(REQUEST_ID, "")
    if _ID.fullmatch(given):
        return given
    traced = _TRACEPARENT.fullmatch(headers.get("traceparent", ""))
    return traced[1] if traced else uuid.uuid4().hex


async def _read(scope: Scope, receive: Receive) -> bytes | Response:
    """The whole body, or how it is refused."""
    declared = Headers(scope=scope).get("content-length", "0")
    too_large = problem(413, f"the body is larger than {LARGEST_BODY} bytes", "too_large")
    if not declared.isdigit() or int(declared) > LARGEST_BODY:
        return too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return problem(400, "the body is not complete", "incomplete")
                body += message.get("body", b"")
                if len(body) > LARGEST_BODY:
                    return too_large
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        return problem(408, f"the body has not arrived within {BODY_SECONDS:g} s", "too_slow")


def _replay(body: bytes, receive: Receive) -> Receive:
    pending = [body]

    async def receive_again() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return receive_again


def _who_are_you() -> Response:
    answer = problem(401, "name and password of the service's account are needed", "unauthorized")
    answer.headers["www-authenticate"] = 'Basic realm="pallas", charset="UTF-8"'
    return answer
