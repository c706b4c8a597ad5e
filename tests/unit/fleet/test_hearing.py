"""Bodies of many small parts are read a few at a time, and nothing is lost when their connection breaks."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvloop
from pydantic import SecretStr
from tests.unit.fleet.socket_server import reply, self_signed, serving

from fleet.reaching.hearing import Hearing
from fleet.reaching.http import Http
from fleet.terminal.agent_api import Status, Terminal

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LATER = 600.0

type Serve = Callable[[asyncio.StreamWriter], Awaitable[None]]
type Run = Callable[[Coroutine[Any, Any, None]], None]


def chunk(data: bytes) -> bytes:
    """A part of a body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


@asynccontextmanager
async def heard(serve: Serve, gather: float, read: float | None = None) -> AsyncGenerator[httpx2.Response]:
    """The answer of a server that answers so."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await serve(writer)
        with suppress(OSError):
            await reader.read()  # until the client leaves
        writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/events"
        timeout = httpx2.Timeout(5.0, read=read)
        async with (
            httpx2.AsyncClient(transport=Hearing(ssl.create_default_context(), ()), timeout=timeout) as client,
            client.stream("GET", url, extensions={"gather": gather}) as answer,
        ):
            yield answer


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_what_came_before_the_connection_broke_is_read_at_once(run: Run) -> None:
    async def check() -> None:
        go_on = asyncio.Event()

        async def serve(writer: asyncio.StreamWriter) -> None:
            writer.write(HEAD + chunk(b"first"))
            await go_on.wait()
            writer.write(chunk(b"second "))
            await writer.drain()
            writer.write(chunk(b"last"))
            await writer.drain()
            writer.transport.abort()

        read = list[bytes]()
        async with heard(serve, LATER) as answer:
            with suppress(httpx2.TransportError):
                async for part in answer.aiter_raw():
                    read.append(part)
                    go_on.set()
        assert read == [b"first", b"second last"]

    run(check())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_events_come_over_tls(run: Run, tmp_path: Path) -> None:
    async def check() -> None:
        stable = reply(200, 'event: status_change\ndata: {"status":"stable"}\n\n', "text/event-stream")
        async with serving(lambda _: stable, self_signed(tmp_path)) as server:
            _, _, certificate = (tmp_path / "coder.pem").read_text("ascii").partition("-----END PRIVATE KEY-----\n")
            http = Http(server.url, SecretStr("secret"), ca=certificate)
            terminal = Terminal(http, httpx2.URL(server.url).join("/app/"), "papi")
            assert [it async for it in terminal.events()] == [Status(status="stable")]
            assert server.requests[0].path == "/app/events"
            await http.close()

    run(check())


async def test_a_body_that_comes_faster_than_it_is_read_is_whole() -> None:
    async def serve(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        for _ in range(100):
            writer.write(chunk(b"x" * 65536))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with heard(serve, 0.005) as answer:
        assert len(await answer.aread()) == 100 * 65536


async def test_an_answer_after_early_hints_is_the_answer() -> None:
    async def serve(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + HEAD + chunk(b"a") + b"0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with heard(serve, 0.0) as answer:
        assert (answer.status_code, "link" in answer.headers, await answer.aread()) == (200, False, b"a")


async def test_a_server_that_falls_silent_and_one_that_speaks_no_http_are_errors() -> None:
    async def silent(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)

    async def nonsense(writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello\r\n\r\n")

    async with heard(silent, 0.0, read=0.01) as answer:
        with pytest.raises(httpx2.ReadTimeout):
            await answer.aread()
    with pytest.raises(httpx2.RemoteProtocolError):
        async with heard(nonsense, 0.0):
            pass
