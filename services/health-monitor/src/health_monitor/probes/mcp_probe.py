"""Probes a downstream MCP server: `initialize`, then `DELETE` of the session if there is one.

A server that supports only the stateless revision 2026-07-28 refuses `initialize`; it gets `server/discover`. A server
that answers too late has made a session all the same, so its answer is awaited, for a while, to end that, too.
"""

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

import httpx

from health_monitor.probes.probing import reason_of
from pallas_contracts.agents import JsonObject
from pallas_teams import HttpServer, reveal

HANDSHAKE_VERSION = "2025-11-25"
MODERN_VERSION = "2026-07-28"
SESSION = "Mcp-Session-Id"

_CLIENT = {"name": "pallas-health-monitor", "version": "0.1.0"}
_ACCEPT = {"Accept": "application/json, text/event-stream"}
_ID = 1
_LARGEST_ANSWER = 1024 * 1024
_LINGER = 0.2
"""Seconds in which a server may end its stream; some log an error when the client closes it."""
_LATE = 30.0
"""Seconds in which an answer that comes after the end of the probe is still awaited."""
_REFUSALS = frozenset({-32022, -32020, -32602, -32601, -32600})
"""Errors of a server that does not support the handshake; -32022 is the specified one."""

_INITIALIZE: JsonObject = {
    "jsonrpc": "2.0",
    "id": _ID,
    "method": "initialize",
    "params": {"protocolVersion": HANDSHAKE_VERSION, "capabilities": {}, "clientInfo": _CLIENT},
}
_DISCOVER: JsonObject = {
    "jsonrpc": "2.0",
    "id": _ID,
    "method": "server/discover",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
            "io.modelcontextprotocol/clientInfo": _CLIENT,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}


@dataclass(frozen=True, slots=True)
class _Reply:
    """`message` is the JSON-RPC answer, None when there was none."""

    status: int
    message: JsonObject | None

    @property
    def succeeded(self) -> bool:
        return self.status == 200 and self.message is not None and "result" in self.message

    @property
    def error_code(self) -> int | None:
        error: Any = (self.message or {}).get("error")
        code: Any = cast("JsonObject", error).get("code") if isinstance(error, dict) else None
        return code if isinstance(code, int) else None

    @property
    def knows_no_handshake(self) -> bool:
        return not self.succeeded and (self.status == 400 or self.error_code in _REFUSALS)

    @property
    def reason(self) -> str:
        if self.status != 200:
            return f"HTTP {self.status}"
        return "answered with an error" if self.message is not None else "does not answer as an MCP server"


@dataclass
class McpProbe:
    """Probes over `http`; each exchange, and each `DELETE` after it, may take `timeout` seconds."""

    http: httpx.AsyncClient
    timeout: float
    _exchanges: set[asyncio.Task[str | None]] = field(default_factory=set["asyncio.Task[str | None]"])
    _deletes: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    async def probe(self, server: HttpServer) -> str | None:
        """Return None when the server answers, else why not. The session is ended in the background."""
        exchange = asyncio.create_task(self._exchange(server))
        self._exchanges.add(exchange)
        exchange.add_done_callback(self._exchanged)
        return await reason_of(asyncio.shield(exchange), self.timeout)

    async def close(self) -> None:
        """Wait until the sessions are deleted."""
        if self._exchanges:
            await asyncio.wait(self._exchanges, timeout=self.timeout)
        for exchange in self._exchanges:
            exchange.cancel()
        await asyncio.gather(*self._exchanges, return_exceptions=True)
        await asyncio.gather(*self._deletes)

    def _exchanged(self, exchange: asyncio.Task[str | None]) -> None:
        self._exchanges.discard(exchange)
        if not exchange.cancelled():
            exchange.exception()  # the probe has told it, or has ended before

    async def _exchange(self, server: HttpServer) -> str | None:
        async with asyncio.timeout(_LATE):
            reply = await self._post(server, _INITIALIZE, {})
            if reply.knows_no_handshake:
                headers = {"MCP-Protocol-Version": MODERN_VERSION, "Mcp-Method": "server/discover"}
                reply = await self._post(server, _DISCOVER, headers)
        return None if reply.succeeded else reply.reason

    async def _post(self, server: HttpServer, body: JsonObject, headers: Mapping[str, str]) -> _Reply:
        url, sent = server.url.get_secret_value(), _headers(server, headers)
        async with self.http.stream("POST", url, json=body, headers=sent, timeout=_LATE) as response:
            message: JsonObject | None = None
            try:
                message = await _answer(response)
            finally:
                if (session := response.headers.get(SESSION)) is not None:
                    self._start_delete(server, session, message)
            return _Reply(response.status_code, message)

    def _start_delete(self, server: HttpServer, session: str, message: JsonObject | None) -> None:
        task = asyncio.create_task(self._delete(server, session, message))
        self._deletes.add(task)
        task.add_done_callback(self._deletes.discard)

    async def _delete(self, server: HttpServer, session: str, message: JsonObject | None) -> None:
        result: Any = (message or {}).get("result")
        version: Any = cast("JsonObject", result).get("protocolVersion") if isinstance(result, dict) else None
        protocol = {SESSION: session, "MCP-Protocol-Version": str(version or HANDSHAKE_VERSION)}

        async def delete() -> None:
            await self.http.delete(server.url.get_secret_value(), headers=_headers(server, protocol))

        await reason_of(delete(), self.timeout)


def _headers(server: HttpServer, protocol: Mapping[str, str]) -> httpx.Headers:
    """The server's configured headers, overridden by those of the protocol."""
    headers = httpx.Headers(reveal(server.headers))
    headers.update({**_ACCEPT, **protocol})
    return headers


async def _answer(response: httpx.Response) -> JsonObject | None:
    """The answer to our request in a body that is JSON or a stream of events; None when there is none."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        return await _answer_in_events(response)
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > _LARGEST_ANSWER:
            return None
    return _as_answer(body.decode(errors="replace"))


async def _answer_in_events(response: httpx.Response) -> JsonObject | None:
    lines = response.aiter_lines()
    data: list[str] = []
    size = 0
    async for line in lines:
        size += len(line)
        if size > _LARGEST_ANSWER:
            return None
        if line.startswith("data:"):
            data.append(line.removeprefix("data:"))
        elif not line:
            if (answer := _as_answer("\n".join(data))) is not None:
                with suppress(TimeoutError, httpx.HTTPError):
                    async with asyncio.timeout(_LINGER):
                        _ = [rest async for rest in lines]
                return answer
            data = []
    return _as_answer("\n".join(data))


def _as_answer(text: str) -> JsonObject | None:
    try:
        message: Any = json.loads(text)
    except ValueError:
        return None
    if not isinstance(message, dict):
        return None
    found = cast("JsonObject", message)
    return found if "result" in found or "error" in found else None
