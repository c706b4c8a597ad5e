"""A downstream server of the handshake era whose every answer a test can change."""

import gzip
import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

type Json = dict[str, Any]

ECHO: Json = {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}


class OddMcp(ThreadingHTTPServer):
    """`pages` are those of the list of tools. `call` answers calls: with a result, with `error`, or with raw bytes.

    Raw bytes are sent with `status` and `headers`.

    A request in a session that is not in `sessions` is answered with the status `forgets`.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pages: Callable[[str | None], Json] = lambda _cursor: {"tools": [ECHO]}
        self.call: Callable[[str, Json], Json | bytes] = lambda name, given: text(f"{name}: {given.get('text')}")
        self.status = 200
        self.headers: dict[str, str] = {"content-type": "application/json"}
        self.forgets = 404
        self.sessions = set[str]()
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/mcp"

    def answer(self, method: str, params: Json) -> Json | bytes | None:
        """What answers a request; None: there is no such method."""
        match method:
            case "initialize":
                about = {"name": "odd", "version": "1"}
                return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about}
            case "tools/list":
                return self.pages(params.get("cursor"))
            case "tools/call":
                return self.call(params["name"], params.get("arguments") or {})
            case _:
                return None


def text(*texts: str, **more: Any) -> Json:
    """A result with these texts."""
    return {"content": [{"type": "text", "text": each} for each in texts], **more}


@contextmanager
def odd_mcp() -> Generator[OddMcp]:
    """A server that runs inside the block."""
    with OddMcp() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def zipped(megabytes: int) -> bytes:
    """That many megabytes of nothing, which are small when compressed."""
    return gzip.compress(b" " * (megabytes * 1024 * 1024))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, OddMcp)
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, session = message["method"], self.headers.get("mcp-session-id")
        server.asked.append(method)
        if method == "initialize":
            session = f"s{len(server.asked)}"
            server.sessions.add(session)
        elif session is not None and session not in server.sessions:
            error = {"code": -32000, "message": "Bad Request: Server not initialized"}
            self._send(server.forgets, {"jsonrpc": "2.0", "id": None, "error": error})
            return
        if "id" not in message:
            self._send(202, b"")
            return
        answer = server.answer(method, message.get("params") or {})
        if answer is None:
            answer = {"error": {"code": -32601, "message": "no such method"}}
        if isinstance(answer, bytes):
            self._send(server.status, answer, server.headers)
            return
        inner = answer if "error" in answer else {"result": answer}
        more = {"mcp-session-id": session} if method == "initialize" and session else {}
        self._send(200, {"jsonrpc": "2.0", "id": message["id"], **inner}, more)

    def do_GET(self) -> None:
        self._send(405, b"")

    def do_DELETE(self) -> None:
        self._send(405, b"")

    def _send(self, status: int, body: Json | bytes, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in ({"content-type": "application/json"} | (headers or {})).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing."""
