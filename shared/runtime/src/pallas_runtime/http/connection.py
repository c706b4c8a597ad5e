"""A connection of an HTTP listener, and what it may send and hold.

uvicorn waits for headers, trailers and bodies without a timeout, and keeps any number of each. Here all have limits.
For a usual request they are comparisons of numbers. Bodies that do not arrive with their headers are looked at once a
second.

Trailers are not read: uvicorn would add them to the headers of a request that is being served.
"""

import asyncio
from typing import Any

from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from pallas_runtime.http.bodies import ARRIVED
from pallas_runtime.http.door import Door

HEADER_SECONDS = 5.0
"""Seconds from the first byte of a request to the end of its headers; for the first request, from the connect."""
LARGEST_HEAD, MOST_HEADERS = 64 * 1024, 200
"""Bytes of a request's path and headers, and their number. Its trailers may have as many bytes."""
MOST_PIPELINED, LARGEST_PIPELINE = 16, 1024 * 1024
"""How many requests of a connection may wait for the answer to an earlier one, and bytes that are read meanwhile."""
BODY_SECONDS, BODY_PACE = 25.0, 8 * 1024
"""A body may be so many seconds behind a pace of so many bytes a second: 12 MB may take 25 minutes."""
UNREAD_SECONDS = 120.0
"""Seconds for which a caller may read nothing of an answer that fills its connection."""
_LAST_CHANCE = 0.1
_LINGER_SECONDS = 1.0
"""Seconds for which what a refused caller still sends is thrown away, so that it can read the answer."""
_NOTED = frozenset({b"accept", b"expect", b"host"})


class _NotServed(Exception):
    """Ends the parsing of a request that is refused."""


class Connection(HttpToolsProtocol):
    """A connection. Each listener has a subclass with its `door`."""

    door: Door
    arrived = 0
    """Bytes of the body that is still arriving."""
    _deadline: asyncio.TimerHandle | None = None
    _refusal: tuple[int, str] | None = None
    _deaf = False
    _in_body = False
    _served: RequestResponseCycle | None = None
    """The request that is being served. Others may have been read behind it."""
    _unread = 0
    """Bytes since the last end of headers or piece of a body."""
    _head = _hosts = _joined = 0
    _piped = 0
    _unsent, _stuck = 0, 0.0
    _seconds = BODY_SECONDS
    _seen = 0

    @property
    def peer(self) -> str:
        """The caller's address: the application has replaced that of a trusted proxy."""
        client = self.cycle.scope.get("client")
        return client[0] if client else ""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.door.waiting[self] = None
        self._expect()
        if len(self.connections) > self.door.most:
            self.door.make_room()

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if self._deadline is None and self in self.door.waiting:
            self._expect()
        self._unread += len(data)
        super().data_received(data)
        if self._unread > LARGEST_HEAD and not self._deaf:
            self.refuse(431, f"headers or trailers are larger than {LARGEST_HEAD} bytes")
        if self._in_body:
            self._arrives()
        if self.pipeline:
            self._piped += len(data)
            if self._piped > LARGEST_PIPELINE:
                self.transport.abort()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MOST_PIPELINED:
            raise self._not_served(429, "too many requests at a time")
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head += len(name) + len(value) + 4
        if self._head > LARGEST_HEAD:
            raise self._not_served(431, f"headers or trailers are larger than {LARGEST_HEAD} bytes")
        if self._in_body:
            return
        name = name.lower()
        if name not in _NOTED or not self._is_joined(name, value):
            self.headers.append((name, value.strip(b" \t")))  # the space is not part of it (RFC 9110, section 5.5)

    def _is_joined(self, name: bytes, value: bytes) -> bool:
        """Note a header. Further lines of `Accept` are joined to the first, as one list (RFC 9110, section 5.3)."""
        if name == b"host":
            self._hosts += 1
        elif name == b"expect":
            self.expect_100_continue = value.strip(b" \t").lower() == b"100-continue"
        else:
            for index, (known, first) in enumerate(self.headers):
                if known == name:
                    self._joined += 1
                    if self._joined > MOST_HEADERS:
                        raise self._not_served(431, f"there are more than {MOST_HEADERS} headers")
                    self.headers[index] = (name, first + b", " + value.strip(b" \t"))
                    return True
        return False

    def on_headers_complete(self) -> None:
        if self._hosts != 1 or self._head + len(self.url) > LARGEST_HEAD or len(self.headers) > MOST_HEADERS:
            self._check_head()
        self._in_body = True
        self._unread = self._head = self._hosts = self._joined = 0
        self._forget()
        super().on_headers_complete()
        if self.scope["http_version"] != "1.1" and self._current is not None:
            self._current.__class__ = OldCycle

    def _check_head(self) -> None:
        """Refuse headers that are too large or without their one `Host`, which HTTP/1.0 may leave out.

        Raises:
            _NotServed: the request is refused.
        """
        if self._head + len(self.url) > LARGEST_HEAD or len(self.headers) > MOST_HEADERS:
            limits = f"{MOST_HEADERS} lines, or, with the path, {LARGEST_HEAD} bytes"
            raise self._not_served(431, f"the headers are more than {limits}")
        if self._hosts or self.parser is None or self.parser.get_http_version() == "1.1":
            raise self._not_served(400, "exactly one Host header is required")

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)
        if self in self.door.arriving:
            self.arrived += len(body)
            self.door.held += len(body)
            if self.door.is_full:
                self.door.shed()

    def on_message_complete(self) -> None:
        self._in_body = False
        scope: Any = self.scope
        scope[ARRIVED] = True
        self._unread = self._head = 0
        super().on_message_complete()
        self._has_arrived()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete:
            self._has_arrived()
            if not self.transport.is_closing():
                self.door.waiting[self] = None
        if not self.pipeline:
            self._piped = 0

    def pause_writing(self) -> None:
        super().pause_writing()
        self.door.unread[self] = None
        self._unsent, self._stuck = 0, 0.0

    def resume_writing(self) -> None:
        super().resume_writing()
        self.door.unread.pop(self, None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self.door.unread.pop(self, None)
        self._has_arrived()
        if self._served is not None and not self._served.response_complete:
            self._served.disconnected = True  # uvicorn tells only the request that was read last
            self._served.message_event.set()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._served = cycle
        super()._start_asgi_task(cycle, app)

    def refuse(self, status: int, reason: str) -> None:
        """Answer the request that is being read, and close the connection."""
        self._not_served(status, reason)
        self.send_400_response(reason)

    def send_400_response(self, msg: str) -> None:
        """Refuse the request that is being read. Earlier requests of the connection are answered before it ends."""
        self._deaf = True
        self._has_arrived()
        due = self._current
        if self.transport.is_closing():
            return
        if due is None or due.response_complete:
            self._answer(*(self._refusal or (400, msg)))
        elif not due.more_body:
            due.keep_alive = False
        elif due.response_started or self.pipeline:
            self.transport.abort()
        else:
            self._answer(*(self._refusal or (400, msg)))
            due.disconnected = True
            due.message_event.set()

    @property
    def _current(self) -> RequestResponseCycle | None:
        """The request whose headers were read last; None before the first."""
        cycle: Any = self.cycle
        return cycle

    def _answer(self, status: int, reason: str) -> None:
        fields = [*self.server_state.default_headers, (b"content-type", b"text/plain")]
        fields += [(b"content-length", b"%d" % len(reason)), (b"connection", b"close")]
        fields += [(b"retry-after", b"1")] if status in (429, 503) else []
        lines = b"".join(b"%s: %s\r\n" % line for line in fields)
        self._forget()
        self.transport.write(b"%s%s\r\n%s" % (STATUS_LINE[status], lines, reason.encode()))
        self.transport.write_eof()
        self.door.waiting[self] = None
        self._deadline = self.loop.call_later(_LINGER_SECONDS, self.end)

    def _not_served(self, status: int, reason: str) -> _NotServed:
        self._refusal = status, reason
        return _NotServed(reason)

    def _arrives(self) -> None:
        """The body of a request has not arrived with its headers."""
        due = self._current
        if self not in self.door.arriving and due is not None and not due.response_complete and not self._deaf:
            self.door.arriving[self] = None
            self.arrived = self._seen = len(due.body)
            self.door.held += self.arrived
            self._seconds = BODY_SECONDS

    def _has_arrived(self) -> None:
        """The body has arrived, or is not waited for any more."""
        if self in self.door.arriving:
            del self.door.arriving[self]
            self.door.held -= self.arrived

    def is_late(self, passed: float) -> bool:
        """Whether the body is too slow, after so many more seconds. While nothing is read here, none count."""
        if not self.flow.read_paused and not self.cycle.waiting_for_100_continue:
            gained = (self.arrived - self._seen) / BODY_PACE
            self._seconds = min(BODY_SECONDS, self._seconds - passed + gained)
        self._seen = self.arrived
        return self._seconds < 0

    def is_stuck(self, passed: float) -> bool:
        """Whether the caller has read nothing of its answer for too long, after so many more seconds."""
        unsent, self._unsent = self._unsent, self.transport.get_write_buffer_size()
        self._stuck = self._stuck + passed if unsent == self._unsent else 0.0
        return self._stuck > UNREAD_SECONDS

    def _expect(self) -> None:
        self._deadline = self.loop.call_later(HEADER_SECONDS, self._late)

    def _late(self) -> None:
        # Bytes that arrived while the process was blocked are read first.
        self._deadline = self.loop.call_later(_LAST_CHANCE, self.end)

    def end(self) -> None:
        """Close the connection."""
        self._forget()
        self.transport.close()

    def cut(self) -> None:
        """Close the connection, and throw away what was not read of the answer."""
        self.transport.abort()

    def _forget(self) -> None:
        self.door.waiting.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


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
