"""The HTTP client of one connection: keeps what goes wrong in one exchange from the others.

The SDK ends a whole connection, with all calls on it, when the transport of one request fails. Here such a failure
becomes an answer of this request alone, and the exchange remembers what it was. Answers are bounded in size and pace.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, override

import httpx2
from pydantic_core import from_json

from pallas_mcp_calls.exchange import Exchange, current
from pallas_mcp_calls.model import CallFailed, FailureCode
from pallas_mcp_calls.pace import END_OF_EVENT, MOST_VALUES, Pace, Values

CONNECT_SECONDS = 10.0
SILENT_SECONDS = 1800.0
"""Many servers send nothing while a tool works. That the other end is there is known by TCP keep-alive."""
KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in (
        ("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)
    ) if hasattr(socket, name)),
)  # fmt: skip
NO_MCP = "what answers at the agent's address does not speak MCP"
MOST_IDLE = 20
"""Connections that wait for another request. The pool looks at each of them for every request."""
_REPLY_TIMEOUT = httpx2.Timeout(CONNECT_SECONDS).as_dict()
_HEAD = 200
"""Bytes in which a request of ours names its method."""
_LARGEST_ERROR = 64 * 1024
_BURST_BYTES, _BYTES_PER_SECOND = 48.0 * 1024 * 1024, 1024.0 * 1024
_BURST_LINES, _LINES_PER_SECOND = 10_000.0, 600.0
"""An event has three lines, so a server may send 200 events a second for as long as it likes."""
_LONGEST_SENTENCE = 300
_CODES: dict[int, FailureCode] = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    429: "busy",
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
}
_SENTENCES = {
    401: "the agent wants another token, or one at all",
    403: "the agent is not for this caller",
    404: "there is no agent at its address",
    429: "the agent gets too many requests",
}


def hurry_replies(request: httpx2.Request) -> None:
    """Let a server take a reply to its question in a short time: whatever else is sent to it waits for that."""
    if request.method == "POST" and b'"method":' not in request.content[:_HEAD]:
        request.extensions["timeout"] = _REPLY_TIMEOUT


def open_transport() -> httpx2.AsyncHTTPTransport:
    """Connections for any number of calls."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=MOST_IDLE, keepalive_expiry=2.0)
    return httpx2.AsyncHTTPTransport(limits=limits, socket_options=KEEPALIVE)


class BoundedClient(httpx2.AsyncClient):
    """Sends the requests of one connection. `transport` is that of all connections, so this client is never closed."""

    def __init__(self, transport: httpx2.AsyncBaseTransport, token: str | None) -> None:
        bearer = {"authorization": f"Bearer {token}"} if token else {}
        super().__init__(
            transport=transport,
            headers={"accept-encoding": "identity", "user-agent": "pallas-mcp-calls", **bearer},
            timeout=httpx2.Timeout(CONNECT_SECONDS, read=SILENT_SECONDS),
            trust_env=False,
        )

    @override
    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        exchange = current.get() or Exchange()
        exchange.fault = None
        hurry_replies(request)
        try:
            response = await super().send(request, **options)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            exchange.fault = unreachable(error)
            if exchange.opening:
                raise exchange.fault from error
            return httpx2.Response(502, request=request)
        if response.is_error:
            await _note_refusal(response, request, exchange)
            return response
        exchange.fault = why_unreadable(response, request.method)
        if exchange.fault is not None and not response.has_redirect_location:
            await response.aclose()
            return httpx2.Response(502, request=request)
        bounded_body(response, exchange)
        return response


def bounded_body(response: httpx2.Response, exchange: Exchange) -> None:
    """Bound the body of a response that has not been read, and less if it is that of an error."""
    if response.is_error:
        exchange = Exchange(largest=_LARGEST_ERROR)
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _BoundedStream(response.stream, exchange, _is_events(response))


def why_unreadable(response: httpx2.Response, method: str) -> CallFailed | None:
    """Why a success cannot be an answer of MCP. The SDK follows a redirect to the same origin, and only that."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.has_redirect_location:
        return CallFailed("the agent's address redirects to another one", code="not_mcp")
    if response.headers.get("content-encoding", "identity") != "identity":
        return CallFailed("the agent's answer is compressed, which was not asked for", code="not_mcp")
    if method == "POST" and response.status_code != 202 and kind not in ("application/json", "text/event-stream", ""):
        return CallFailed(NO_MCP, code="not_mcp")
    return None


def unreachable(error: Exception) -> CallFailed:
    """A failure of the transport, before an answer began."""
    late = isinstance(error, httpx2.ConnectTimeout | httpx2.PoolTimeout)
    if late or isinstance(error, httpx2.ConnectError | httpx2.UnsupportedProtocol | httpx2.InvalidURL):
        why = "no connection in time" if late else "no connection"
        return CallFailed(f"the agent cannot be reached: {why}", code="unreachable", lost=True, sent=False)
    return CallFailed("the connection to the agent was lost", code="connection_lost", lost=True)


async def _note_refusal(response: httpx2.Response, request: httpx2.Request, exchange: Exchange) -> None:
    """Remember an HTTP error, with the sentence of a JSON-RPC error in its body. The body can be read again."""
    bounded_body(response, exchange)
    try:
        body = await response.aread()
    except (httpx2.HTTPError, httpx2.StreamError):
        body = b""
    status = response.status_code
    exchange.session_lost = status == 404 and "mcp-session-id" in request.headers
    exchange.fault = refusal(status, sentence_of(body), sent=not exchange.opening)
    if exchange.opening and status in _CODES and status != 404:
        raise exchange.fault


def refusal(status: int, sentence: str | None, *, sent: bool) -> CallFailed:
    """An HTTP status as a failure; `sent`: it answers a call."""
    text = sentence or _SENTENCES.get(status) or f"the agent's server answered with status {status}"
    lost = status in (502, 503, 504)
    sent = sent and status not in (401, 403, 404, 429)
    return CallFailed(text, code=_CODES.get(status, "protocol"), lost=lost, sent=sent)


def sentence_of(body: bytes) -> str | None:
    """The message of a JSON-RPC error as one line; a sentence without its capital and its full stop."""
    try:
        match from_json(body):
            case {"error": {"message": str(message)}} if line := " ".join(message.split())[:_LONGEST_SENTENCE]:
                return line[0].lower() + line[1:-1] if line.endswith(".") else line
            case _:
                return None
    except ValueError:
        return None


def _is_events(response: httpx2.Response) -> bool:
    return response.headers.get("content-type", "").lower().startswith("text/event-stream")


class _BoundedStream(httpx2.AsyncByteStream):
    """A body. It ends early, and the exchange knows why, if it is too large or the connection is lost."""

    def __init__(self, inner: httpx2.AsyncByteStream, exchange: Exchange, events: bool) -> None:
        self._inner = inner
        self._exchange = exchange
        self._events = events

    @override
    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._parts()

    async def _parts(self) -> AsyncGenerator[bytes]:
        held, exchange, values = 0, self._exchange, Values()
        amount, lines = Pace(_BURST_BYTES, _BYTES_PER_SECOND), Pace(_BURST_LINES, _LINES_PER_SECOND)
        try:
            async for part in self._inner:
                newlines = part.count(b"\n") if self._events else 0
                held = len(part) - part.rfind(b"\n") - 1 if newlines else held + len(part)
                if held > exchange.largest:
                    size = exchange.largest // 1024 // 1024 or 1
                    exchange.fault = CallFailed(f"the agent's answer is larger than {size} MiB", code="too_large")
                    raise httpx2.StreamError("it is too large")
                if values.take(part, *(END_OF_EVENT if self._events else ())) > MOST_VALUES:
                    exchange.fault = CallFailed("the agent's answer has too many values", code="too_large")
                    raise httpx2.StreamError("it has too many values")
                if (pause := max(amount.take(len(part)), lines.take(newlines))) > 0:
                    await asyncio.sleep(pause)
                yield part
        except httpx2.TransportError as error:
            exchange.fault = exchange.fault or CallFailed(
                "the connection to the agent was lost", code="connection_lost", lost=True
            )
            raise httpx2.StreamError("connection lost") from error

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()
