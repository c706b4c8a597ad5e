"""A client of the broker that costs little beside it: messages are bytes that were made before, answers are split only.

The client library takes longer for a message than the broker does, so with it one would measure the library.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import override

from pallas_bus.headers import encoded

type Arrived = Callable[[str, str, bytes], None]
"""Takes a message: its subject, where it wants its reply, and its body without headers."""

_HELLO = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"lang":"bench","version":"0"}\r\nPING\r\n'


def message(subject: str, body: bytes, headers: Mapping[str, str] | None = None, *, reply: str = "") -> bytes:
    """A message as it is sent."""
    if headers is None:
        return b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), reply.encode(), len(body), body)
    block = encoded(headers)
    sizes = (len(block), len(block) + len(body))
    return b"HPUB %s %s %d %d\r\n%s%s\r\n" % (subject.encode(), reply.encode(), *sizes, block, body)


class Wire(asyncio.Protocol):
    """One connection. Without `arrived` it counts the bytes that it receives, and does not look at them."""

    def __init__(self, arrived: Arrived | None = None) -> None:
        self._arrived = arrived
        self._rest = b""
        self.received = 0
        self.transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(_HELLO)

    def send(self, parts: bytes) -> None:
        """Send messages or commands."""
        assert self.transport is not None
        self.transport.write(parts)

    @override
    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        if self._arrived is None:
            if data.endswith(b"PING\r\n"):
                self.send(b"PONG\r\n")
            return
        data = self._rest + data
        begin = 0
        while (end := data.find(b"\r\n", begin)) >= 0:
            words = data[begin:end].split()
            following = end + 2
            if words and words[0] in (b"MSG", b"HMSG"):
                size = int(words[-1])
                if len(data) < following + size + 2:
                    break
                skipped = int(words[-2]) if words[0] == b"HMSG" else 0
                body = data[following + skipped : following + size]
                has_reply = len(words) - (words[0] == b"HMSG") == 5
                self._arrived(words[1].decode(), words[3].decode() if has_reply else "", body)
                following += size + 2
            elif words and words[0] == b"PING":
                self.send(b"PONG\r\n")
            begin = following
        self._rest = data[begin:]


async def connect(port: int, arrived: Arrived | None, *subjects: str) -> Wire:
    """Connect to a broker on loopback and subscribe."""
    loop = asyncio.get_running_loop()
    _, wire = await loop.create_connection(lambda: Wire(arrived), "127.0.0.1", port)
    wire.send(b"".join(f"SUB {subject} {number}\r\n".encode() for number, subject in enumerate(subjects, 1)))
    return wire
