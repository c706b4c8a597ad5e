"""A model behind the API of Anthropic that answers every message with the same word."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_MESSAGE: dict[str, Any] = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [],
    "stop_reason": None,
}
_EVENTS: tuple[dict[str, Any], ...] = (
    {"type": "message_start", "message": {**_MESSAGE, "usage": {"input_tokens": 3, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hello"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
)
_BODY = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _EVENTS).encode()


@dataclass
class AnthropicModel:
    """Its address, the callers that have connected, and the cookies that they sent."""

    url: str = ""
    connected: list[Any] = field(default_factory=list[Any])
    cookies: list[str] = field(default_factory=list[str])


@contextmanager
def anthropic_model() -> Generator[AnthropicModel]:
    """The model, listening on a free port."""
    model = AnthropicModel()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            model.connected.append(self.client_address)
            super().setup()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            model.cookies += self.headers.get_all("Cookie", [])
            self.send_response(200)
            headers = {"Content-Type": "text/event-stream", "Content-Length": str(len(_BODY)), "Set-Cookie": "a=b"}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(_BODY)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Write nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
