"""MCP as raw HTTP, for details that the official client hides: headers, tokens, the order of messages, disconnects."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

type Message = dict[str, Any]

ACCEPT = {"accept": "application/json, text/event-stream"}
_INFO = {"name": "pallas-tests", "version": "0"}


def modern(method: str, params: Message, *, request_id: str | int = 1) -> tuple[Message, dict[str, str]]:
    """The body and headers of a request of the modern revision."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": LATEST_MODERN_VERSION,
        "io.modelcontextprotocol/clientInfo": _INFO,
        "io.modelcontextprotocol/clientCapabilities": {},
        **params.get("_meta", {}),
    }
    headers = {**ACCEPT, "mcp-protocol-version": LATEST_MODERN_VERSION, "mcp-method": method}
    if "name" in params:
        headers["mcp-name"] = params["name"]
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**params, "_meta": meta}}, headers


def legacy(
    method: str, params: Message, session: str, *, request_id: str | int | None = 1
) -> tuple[Message, dict[str, str]]:
    """The body and headers of a request, or with no id of a notification, of a handshake-era session."""
    headers = {**ACCEPT, "mcp-protocol-version": LATEST_HANDSHAKE_VERSION, "mcp-session-id": session}
    body: Message = {"jsonrpc": "2.0", "method": method, "params": params}
    return body if request_id is None else {**body, "id": request_id}, headers


async def shake_hands(http: httpx.AsyncClient, url: str) -> str:
    """Begin a handshake-era session and return its id."""
    params = {"protocolVersion": LATEST_HANDSHAKE_VERSION, "capabilities": {}, "clientInfo": _INFO}
    body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    answer = await http.post(url, json=body, headers=ACCEPT)
    assert answer.status_code == 200, answer.text
    session = answer.headers["mcp-session-id"]
    body, headers = legacy("notifications/initialized", {}, session, request_id=None)
    assert (await http.post(url, json=body, headers=headers)).status_code == 202
    return session


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event. `message` is None when it has no data."""

    id: str | None
    message: Message | None
    retry: int | None


@dataclass
class Stream:
    """The answer to one request, message by message."""

    response: httpx.Response
    _events: AsyncIterator[Event] | None = None

    async def messages(self) -> AsyncIterator[Message]:
        """Yield the JSON-RPC messages until the stream ends."""
        assert self.response.status_code == 200, (self.response.status_code, await self.response.aread())
        if self.response.headers["content-type"].startswith("application/json"):
            yield json.loads(await self.response.aread())
            return
        async for line in self.response.aiter_lines():
            if line.startswith("data:") and line[5:].strip():
                yield json.loads(line[5:])

    def events(self) -> AsyncIterator[Event]:
        """The events with their ids until the stream ends. A second iterator continues where the first stopped."""
        if self._events is None:
            self._events = self._read_events()
        return self._events

    async def _read_events(self) -> AsyncIterator[Event]:
        assert self.response.headers["content-type"].startswith("text/event-stream"), self.response
        fields: dict[str, str] = {}
        async for line in self.response.aiter_lines():
            name, _, value = line.partition(":")
            if line and name:
                fields[name] = value.strip()
            elif fields:
                data, retry = fields.get("data"), fields.get("retry")
                yield Event(fields.get("id"), json.loads(data) if data else None, int(retry) if retry else None)
                fields = {}


@asynccontextmanager
async def resumed(
    http: httpx.AsyncClient, url: str, last_event_id: str, version: str = LATEST_HANDSHAKE_VERSION
) -> AsyncGenerator[Stream]:
    """Resume a stream after an event. Leaving the block closes it."""
    headers = {"accept": "text/event-stream", "mcp-protocol-version": version, "last-event-id": last_event_id}
    async with http.stream("GET", url, headers=headers) as response:
        yield Stream(response)


@asynccontextmanager
async def posted(
    http: httpx.AsyncClient, url: str, request: tuple[Message, Mapping[str, str]]
) -> AsyncGenerator[Stream]:
    """Send a request; leaving the block closes its stream, whatever has arrived."""
    body, headers = request
    async with http.stream("POST", url, json=body, headers=headers) as response:
        yield Stream(response)


async def answers(http: httpx.AsyncClient, url: str, request: tuple[Message, Mapping[str, str]]) -> list[Message]:
    """Send a request and return all messages of the stream."""
    async with posted(http, url, request) as stream:
        return [message async for message in stream.messages()]
