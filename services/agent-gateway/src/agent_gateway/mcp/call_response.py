"""The response to a `tools/call` in each era, byte for byte that of the SDK's transports."""

import asyncio
import json
from abc import ABC, abstractmethod
from datetime import UTC, datetime
from typing import Any

from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError, JSONRPCResponse, RequestId
from starlette.responses import Response
from starlette.types import Send

from agent_gateway.handshake.event_stream import frame_of
from pallas_contracts.turns import JsonObject

PING_SECONDS = 15.0
"""Seconds between two pings. They keep proxies from closing a silent stream."""


def _from_now() -> float:
    return asyncio.get_running_loop().time() + PING_SECONDS


class CallResponse(ABC):
    """A response that is being sent. `ping_at` is the time of the next ping; None once the answer is being sent."""

    headers: tuple[tuple[bytes, bytes], ...]

    def __init__(self, send: Send, request_id: RequestId) -> None:
        self._send = send
        self._request_id: RequestId = request_id
        self._started = False
        self.ping_at: float | None = _from_now()

    async def start(self) -> None:
        """Start the stream."""
        self._started = True
        await self._send({"type": "http.response.start", "status": 200, "headers": list(self.headers)})

    async def notify(self, method: str, params: JsonObject) -> None:
        """Send a notification."""
        await self._write(frame_of({"jsonrpc": "2.0", "method": method, "params": params}, None))

    async def _write(self, frame: bytes) -> None:
        if not self._started:
            await self.start()
        await self._send({"type": "http.response.body", "body": frame, "more_body": True})

    @abstractmethod
    async def ping(self) -> None:
        """Send a ping."""

    @abstractmethod
    async def succeed(self, result: dict[str, Any]) -> None:
        """Send the result."""

    @abstractmethod
    async def fail(self, error: ErrorData) -> None:
        """Send an error."""

    @abstractmethod
    def internal_error(self, error: Exception) -> ErrorData:
        """What the caller is told of an error that is a bug."""


class ModernResponse(CallResponse):
    """An event stream from the first notification or ping on, with pings in silence. JSON if the call ends before."""

    headers = (
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-cache, no-transform"),
        (b"connection", b"keep-alive"),
        (b"x-accel-buffering", b"no"),
    )

    async def _write(self, frame: bytes) -> None:
        self.ping_at = _from_now()
        await super()._write(frame)

    async def ping(self) -> None:
        await self._write(b": ping\r\n\r\n")

    async def succeed(self, result: dict[str, Any]) -> None:
        await self._answer({"result": result}, 200)

    async def fail(self, error: ErrorData) -> None:
        dumped = error.model_dump(mode="json", by_alias=True, exclude_none=True)
        await self._answer({"error": dumped}, ERROR_CODE_HTTP_STATUS.get(error.code, 200))

    def internal_error(self, error: Exception) -> ErrorData:
        return ErrorData(code=INTERNAL_ERROR, message="Internal server error")

    async def _answer(self, answer: JsonObject, status: int) -> None:
        self.ping_at = None
        message = {"jsonrpc": "2.0", "id": self._request_id, **answer}
        if self._started:
            await self._send({"type": "http.response.body", "body": frame_of(message, None)})
            return
        body = json.dumps(message, separators=(",", ":"))
        response = Response(body, status_code=status, media_type="application/json")
        await self._send({"type": "http.response.start", "status": status, "headers": response.raw_headers})
        await self._send({"type": "http.response.body", "body": response.body})


class HandshakeResponse(CallResponse):
    """An event stream from the beginning on, with pings at a fixed interval."""

    headers = (
        (b"cache-control", b"no-cache, no-transform"),
        (b"connection", b"keep-alive"),
        (b"content-type", b"text/event-stream"),
        (b"x-accel-buffering", b"no"),
    )

    async def ping(self) -> None:
        self.ping_at = _from_now()
        await self._write(f": ping - {datetime.now(UTC)}\r\n\r\n".encode())

    async def succeed(self, result: dict[str, Any]) -> None:
        await self._answer(JSONRPCResponse(jsonrpc="2.0", id=self._request_id, result=result))

    async def fail(self, error: ErrorData) -> None:
        await self._answer(JSONRPCError(jsonrpc="2.0", id=self._request_id, error=error))

    def internal_error(self, error: Exception) -> ErrorData:
        return ErrorData(code=0, message=str(error))

    async def _answer(self, message: JSONRPCResponse | JSONRPCError) -> None:
        self.ping_at = None
        data = message.model_dump_json(by_alias=True, exclude_unset=True)
        await self._write(f"event: message\r\ndata: {data}\r\n\r\n".encode())
        await self._send({"type": "http.response.body", "body": b""})
