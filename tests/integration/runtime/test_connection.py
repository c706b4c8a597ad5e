"""What a connection may send and hold: the limits of headers, trailers, requests and bodies."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send
from tests.waiting import eventually, soon

from pallas_runtime.http.connection import Connection
from pallas_runtime.http.listener import bind, listening

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n"


@dataclass
class Mirror:
    """Reads a body to its end, and answers with the headers of the request. A GET waits until it `may_answer`."""

    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    address: tuple[str, int] = ("", 0)
    asked: int = 0
    gone: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        message = await receive()
        while message.get("more_body"):
            message = await receive()
        if message["type"] == "http.disconnect":
            self.gone += 1
            return
        if scope["path"] == "/until-gone":
            assert (await receive())["type"] == "http.disconnect"
            self.gone += 1
            await send({"type": "http.response.start", "status": 200, "headers": []})
            return
        if scope["path"] == "/large":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": bytes(20_000_000), "more_body": True})
            await send({"type": "http.response.body", "body": b""})
            self.gone += 1
            return
        if scope["method"] == "GET":
            await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"keep-alive")]})
        told = json.dumps([[name.decode(), value.decode()] for name, value in scope["headers"]]).encode()
        await send({"type": "http.response.body", "body": told[:3], "more_body": True})
        await send({"type": "http.response.body", "body": told[3:]})


@asynccontextmanager
async def unread(app: Mirror) -> AsyncGenerator[None]:
    """A connection that asks for a large answer and does not read it."""
    asked = app.asked
    reader, writer = await asyncio.open_connection(*app.address, limit=1024)
    writer.write(LARGE)
    await eventually(lambda: app.asked > asked)
    yield
    assert not reader.at_eof()
    writer.transport.abort()


type Connect = Callable[[bytes], "asyncio.Task[bytes]"]


@asynccontextmanager
async def a_mirror(most: int = 100) -> AsyncGenerator[tuple[Mirror, Connect]]:
    """A listener, and a function that connects, sends bytes, and returns all that is answered until the end."""
    app, listener = Mirror(), bind("127.0.0.1", 0)
    app.address, tasks = listener.getsockname(), list[asyncio.Task[bytes]]()

    async def talk(sent: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*app.address)
        answer = bytearray()
        try:
            writer.write(sent)
            while part := await reader.read(65536):
                answer += part
        except ConnectionError:
            pass
        finally:
            writer.close()
        return bytes(answer)

    def connect(sent: bytes) -> "asyncio.Task[bytes]":
        tasks.append(asyncio.create_task(talk(sent)))
        return tasks[-1]

    async with listening(app, listener, drain_seconds=1, most_connections=most):
        try:
            yield app, connect
        finally:
            app.may_answer.set()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


LINE = b"x: " + b"y" * 1000 + b"\r\n"


@pytest.mark.parametrize("start", [GET[:-2], CHUNKED], ids=["headers", "trailers"])
@pytest.mark.parametrize(
    "more",
    [LINE * 10_000, b"x: " + b"y" * 10_000_000, b"a:\r\n" * 20_000],
    ids=["many", "one without an end", "small ones"],
)
async def test_headers_and_trailers_beyond_their_limits_are_refused_with_431(start: bytes, more: bytes) -> None:
    async with a_mirror() as (app, connect):
        answer = await soon(connect(start + more))
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert b"connection: close" in answer
        await eventually(lambda: app.asked == app.gone)  # a request whose trailers have no end is given up


async def test_a_path_counts_as_part_of_the_headers() -> None:
    async with a_mirror() as (app, connect):
        answer = await soon(connect(GET.replace(b" / ", b" /" + b"a" * 66_000 + b" ")))
        assert answer.startswith(b"HTTP/1.1 431 ")
        assert not app.asked


async def test_a_request_whose_target_cannot_be_read_is_refused_without_an_error_of_the_process() -> None:
    failed = list[str]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.append(context["message"]))
    async with a_mirror() as (app, connect):
        answer = await soon(connect(b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n"))
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert not app.asked
    assert not failed


async def test_trailers_become_headers_neither_of_their_request_nor_of_the_next() -> None:
    async with a_mirror() as (app, connect):
        app.may_answer.set()
        closing = GET[:-2] + b"Connection: close\r\n\r\n"
        answer = await soon(connect(CHUNKED + b"Authorization: Bearer other\r\n\r\n" + closing))
        assert answer.count(b"200 OK") == 2
        assert b"authorization" not in answer


async def test_pipelined_requests_beyond_the_limit_end_the_connection_behind_the_answers() -> None:
    async with a_mirror() as (app, connect):
        answer = connect(GET * 4000)
        await eventually(lambda: app.asked == 1)
        app.may_answer.set()
        assert (await soon(answer)).count(b"HTTP/1.1 200 OK") == app.asked == 17
        assert b"connection: close" in answer.result()


async def test_a_request_is_told_that_its_caller_has_left_although_others_were_read_behind_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with a_mirror() as (app, _):
        _, writer = await asyncio.open_connection(*app.address)
        writer.write(GET.replace(b"/", b"/until-gone", 1) + GET * 2)
        await eventually(lambda: app.asked == 1)
        writer.transport.abort()
        await eventually(lambda: app.gone == 1)
    assert not [line for line in caplog.records if line.levelname == "ERROR"]


async def test_bytes_that_are_no_request_are_not_answered_in_place_of_an_earlier_request() -> None:
    async with a_mirror() as (app, connect):
        answer = connect(GET + b"BAD\r\n\r\n")
        await eventually(lambda: app.asked == 1)
        app.may_answer.set()
        assert (await soon(answer)).startswith(b"HTTP/1.1 200 OK")
        assert b"400" not in answer.result()


@pytest.mark.parametrize("hosts", [b"", b"Host: x\r\nHost: x\r\n"], ids=["none", "two"])
async def test_a_request_without_exactly_one_host_is_refused(hosts: bytes) -> None:
    async with a_mirror() as (app, connect):
        answer = await soon(connect(GET.replace(b"Host: x\r\n", hosts)))
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"exactly one Host header is required" in answer
        assert not app.asked


async def test_the_lines_of_accept_are_one_list() -> None:
    async with a_mirror() as (app, connect):
        app.may_answer.set()
        lines = b"Accept: application/json\r\nX: 1\r\nAccept: text/event-stream\r\nConnection: close\r\n\r\n"
        answer = await soon(connect(GET[:-2] + lines))
        assert b'["accept", "application/json, text/event-stream"], ["x", "1"]' in answer.replace(b"\r\n", b"")


async def test_an_answer_in_http_1_0_has_no_chunks_and_ends_with_its_connection() -> None:
    async with a_mirror() as (app, connect):
        app.may_answer.set()
        head, _, body = (await soon(connect(b"GET / HTTP/1.0\r\nX: 1\r\n\r\n"))).partition(b"\r\n\r\n")
        assert json.loads(body) == [["x", "1"]]
        assert b"transfer-encoding" not in head
        assert head.count(b"connection: ") == head.count(b"connection: close") == 1


async def test_a_body_that_does_not_arrive_is_refused_and_its_request_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pallas_runtime.http.connection.BODY_SECONDS", 0.2)
    async with a_mirror() as (app, connect):
        assert (await soon(connect(POST))).startswith(b"HTTP/1.1 408 ")
        await eventually(lambda: app.gone == 1)


def test_a_large_body_over_a_slow_link_is_not_late_until_it_stops() -> None:
    connection: Any = Connection.__new__(Connection)
    connection.flow = SimpleNamespace(read_paused=False)
    connection.cycle = SimpleNamespace(waiting_for_100_continue=False)
    while connection.arrived < 12_000_000:
        connection.arrived += 160_000
        assert not any(connection.is_late(1.0) for _ in range(19)), "64 kbit/s, in pieces"
    connection.flow.read_paused = True
    assert not any(connection.is_late(1.0) for _ in range(60)), "this process does not read"
    connection.flow.read_paused = False
    assert [connection.is_late(1.0) for _ in range(30)].index(True) <= 25


async def test_an_address_has_a_share_of_the_connections_for_bodies_that_do_not_end() -> None:
    async with a_mirror(most=8) as (_, connect):
        requests = [connect(POST) for _ in range(4)]
        await eventually(lambda: sum(request.done() for request in requests) == 2)
        refused = [request.result() for request in requests if request.done()]
        assert all(answer.startswith(b"HTTP/1.1 503 ") and b"retry-after" in answer for answer in refused)


LARGE = GET.replace(b" / ", b" /large ")


async def test_a_caller_that_does_not_read_its_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pallas_runtime.http.connection.UNREAD_SECONDS", 0.2)
    async with a_mirror() as (app, _), unread(app):
        await eventually(lambda: app.gone == 1)


async def test_answers_that_nobody_reads_keep_no_newcomer_out() -> None:
    async with a_mirror(most=2) as (app, connect), unread(app), unread(app):
        app.may_answer.set()
        assert b"200 OK" in await soon(connect(GET[:-2] + b"Connection: close\r\n\r\n"))


async def test_bodies_that_do_not_end_keep_no_newcomer_out() -> None:
    async with a_mirror(most=3) as (app, connect):
        unfinished = [connect(POST) for _ in range(3)]
        await eventually(lambda: app.asked == 3)
        app.may_answer.set()
        assert b"200 OK" in await soon(connect(GET[:-2] + b"Connection: close\r\n\r\n"))
        await soon(asyncio.wait(unfinished, return_when=asyncio.FIRST_COMPLETED))
