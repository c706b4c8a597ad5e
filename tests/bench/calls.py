"""Prepared tools/call requests, and the check of what comes back.

Every answer is checked: a server that answers with an error, or with less progress than it should, may not look fast.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from tests.bench.http_client import Answer

MODERN = "2026-07-28"
LEGACY = "2025-11-25"


@dataclass(frozen=True, slots=True)
class Call:
    """One call to measure, and the answer it must have: `text`, after `progress` notifications.

    `tool` None means a bare GET whose body is `text`. `bearer` says who calls.
    With `sessions`, each caller has a session of the handshake revision. With `rpc`, `tool` is a method of JSON-RPC,
    `arguments` are its parameters, and `text` is its result as JSON.
    """

    port: int
    path: str
    tool: str | None
    arguments: dict[str, Any]
    text: str
    progress: int
    bearer: str | None = None
    sessions: bool = False
    rpc: bool = False

    def to_json(self) -> dict[str, Any]:
        """As it travels to the load process."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Self:
        """As it arrives there."""
        return cls(**fields)

    def answered(self, text: str) -> Self:
        return replace(self, text=text)

    def modern(self, number: int = 1) -> bytes:
        """The HTTP request of the stateless revision."""
        if self.tool is None:
            return f"GET {self.path} HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\n\r\n".encode()
        if self.rpc:
            return self._post({"jsonrpc": "2.0", "id": number, "method": self.tool, "params": self.arguments}, {})
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
            "progressToken": number,
        }
        headers = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": self.tool}
        params = {"name": self.tool, "arguments": self.arguments, "_meta": meta}
        return self._post({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}, headers)

    def legacy(self, number: int, session: str | None) -> bytes:
        """The HTTP request of the last handshake revision."""
        headers = {"mcp-protocol-version": LEGACY} | ({"mcp-session-id": session} if session else {})
        params = {"name": self.tool, "arguments": self.arguments, "_meta": {"progressToken": number}}
        return self._post({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}, headers)

    def initialize(self) -> bytes:
        """The HTTP request that opens a session of that revision."""
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        return self._post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, {})

    def initialized(self, session: str | None) -> bytes:
        """The HTTP request that ends the handshake."""
        headers = {"mcp-protocol-version": LEGACY} | ({"mcp-session-id": session} if session else {})
        return self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)

    def _post(self, message: dict[str, Any], headers: dict[str, str]) -> bytes:
        body = json.dumps(message).encode()
        lines = [
            f"POST {self.path} HTTP/1.1",
            f"host: 127.0.0.1:{self.port}",
            "content-type: application/json",
            "accept: application/json, text/event-stream",
            f"content-length: {len(body)}",
            *([f"authorization: Bearer {self.bearer}"] if self.bearer is not None else []),
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def messages(answer: Answer) -> Iterator[dict[str, Any]]:
    """The JSON-RPC messages of an answer, from an event stream or a single JSON body."""
    if not answer.sse:
        yield json.loads(answer.body)
        return
    for event in answer.body.replace(b"\r\n", b"\n").split(b"\n\n"):
        data = b"\n".join(line[5:].lstrip() for line in event.split(b"\n") if line.startswith(b"data:"))
        if data:
            yield json.loads(data)


def _says_queued(message: dict[str, Any]) -> bool:
    """Whether it is a notice of the queue position. It is sent in addition when the wait is long."""
    return " queued: " in str(message.get("params", {}).get("message"))


def fault_of(call: Call, answer: Answer) -> str | None:
    """What is wrong with the answer, or None when it is as it must be."""
    if answer.status != 200:
        return f"status {answer.status}: {answer.body[:200].decode(errors='replace')}"
    if call.tool is None:
        return None if answer.body.decode() == call.text else "another body"
    if call.rpc:
        given = json.loads(answer.body)
        return None if given.get("result") == json.loads(call.text) else f"another answer: {json.dumps(given)[:300]}"
    progress, last = 0, dict[str, Any]()
    for message in messages(answer):
        progress += message.get("method") == "notifications/progress" and not _says_queued(message)
        last = message
    if progress != call.progress:
        return f"{progress} progress notifications instead of {call.progress}"
    result = last.get("result", {})
    if result.get("isError") or [block.get("text") for block in result.get("content", ())] != [call.text]:
        return f"another answer: {json.dumps(last)[:300]}"
    return None
