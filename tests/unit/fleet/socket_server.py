"""A server on a socket that answers whatever a test wants, byte by byte, or does not."""

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from pallas_runtime.http.listener import stop_accepting


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


type Reply = bytes | None
"""What is sent; None: nothing, for as long as the client waits."""

type Answering = Callable[[Request], Reply | AsyncGenerator[bytes]]
RESET = b"reset"


def reply(status: int, body: bytes | str = b"", kind: str = "application/json", **headers: str) -> bytes:
    """An answer of HTTP."""
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} X", f"content-type: {kind}", f"content-length: {len(data)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def json_reply(value: Any, status: int = 200) -> bytes:
    """An answer with JSON."""
    return reply(status, json.dumps(value))


@dataclass
class Server:
    """The server: `url` is its address, `requests` what it was asked."""

    answering: Answering
    url: str = ""
    requests: list[Request] = field(default_factory=list[Request])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        method, path, _ = first.split(" ")
        request = Request(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))
        self.requests.append(request)
        answer = self.answering(request)
        if answer is None:
            await reader.read()
            return False
        if isinstance(answer, bytes):
            if answer.endswith(RESET):
                return await self._reset(writer, answer.removesuffix(RESET))
            writer.write(answer)
            return True
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        async with aclosing(answer):
            async for part in answer:
                writer.write(part)
                await writer.drain()
        return False

    async def _reset(self, writer: asyncio.StreamWriter, before: bytes) -> bool:
        writer.write(before)
        await writer.drain()
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return False


@asynccontextmanager
async def serving(answering: Answering, tls: ssl.SSLContext | None = None) -> AsyncGenerator[Server]:
    """A server until the block ends."""
    server, tasks = Server(answering), set[asyncio.Task[None]]()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await server.serve(reader, writer)

    listening = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        await stop_accepting(listening)
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def self_signed(folder: Path) -> ssl.SSLContext:
    """A certificate for 127.0.0.1 that nobody trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, encoding = folder / "coder.pem", serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
    pem.write_bytes(secret + certificate.public_bytes(encoding))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context
