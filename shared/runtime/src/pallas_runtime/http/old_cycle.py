"""Requests in HTTP/1.0, which has no chunks: an answer without a length ends with its connection."""

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class OldCycle(RequestResponseCycle):
    """A request in HTTP/1.0 and its answer."""

    _has_length = False

    async def send(self, message: ASGISendEvent) -> None:
        if message["type"] == "http.response.start":
            fields = [(name.lower(), value) for name, value in message.get("headers", ())]
            self._has_length = any(name == b"content-length" for name, _ in fields)
            if not self._has_length:
                self.chunked_encoding = False
            kept = [field for field in fields if field[0] not in (b"connection", b"transfer-encoding")]
            message = {**message, "headers": kept}
        elif message["type"] == "http.response.body" and not self._has_length:
            self.expected_content_length = len(message.get("body", b""))
        await super().send(message)
