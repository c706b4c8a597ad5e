"""Open streams of events end with the session of their reader, at all replicas."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

import httpx
import pytest
from tests.integration.workspaces.lab import API, PASSWORD, a_workspaces, client_of, headers_of, log_in, session_cookie
from tests.waiting import soon

from workspaces.access import sessions


@asynccontextmanager
async def a_stream(base: str, browser: httpx.AsyncClient, path: str = "/events") -> AsyncGenerator["asyncio.Task[str]"]:
    """Read a stream as a browser that is logged in. The task ends with the stream."""
    begun = asyncio.Event()

    async def read() -> str:
        async with client_of(base) as http:
            http.cookies.set(f"pallas_session_{base.rpartition(':')[2]}", session_cookie(browser)[1])
            http.headers["x-csrf-token"] = browser.headers["x-csrf-token"]
            async with http.stream("GET", f"{API}{path}", timeout=None) as answer:
                assert answer.status_code == 200
                read = ""
                async for piece in answer.aiter_text():
                    read += piece
                    begun.set()
                return read

    reading = asyncio.create_task(read())
    try:
        await soon(begun.wait())
        yield reading
    finally:
        reading.cancel()
        await asyncio.wait({reading})


async def test_a_logout_ends_the_streams_of_its_session_at_all_replicas(database: str) -> None:
    async with a_workspaces(postgres_url=database) as first, a_workspaces(postgres_url=database) as second:
        workspace = (await first.browser.post(f"{API}/workspaces", json={"name": "one"})).json()["id"]
        made = await first.browser.post(f"{API}/workspaces/{workspace}/conversations", json={})
        path = f"/conversations/{made.json()['id']}/events"
        async with (
            a_stream(first.base, first.browser) as here,
            a_stream(first.base, first.browser, path) as conversation,
            a_stream(second.base, first.browser) as there,
            a_stream(second.base, second.browser) as other,
        ):
            assert (await second.browser.post(f"{API}/logout")).status_code == 204
            assert "event: ready" in await soon(other)
            assert not any(stream.done() for stream in (here, conversation, there))
            assert (await first.browser.post(f"{API}/logout")).status_code == 204
            for stream in (here, conversation, there):
                assert "event: ready" in await soon(stream)


async def test_a_login_in_place_of_a_session_ends_its_streams(database: str) -> None:
    async with a_workspaces(postgres_url=database) as lab, a_stream(lab.base, lab.browser) as stream:
        await log_in(lab.browser)
        await soon(stream)


async def test_a_stream_ends_when_its_session_expires(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "LIVES", timedelta(seconds=1))
    async with a_workspaces(postgres_url=database) as lab, a_stream(lab.base, lab.browser) as stream:
        await soon(stream)


async def test_a_reader_that_does_not_read_is_cut_off(database: str) -> None:
    async with a_workspaces(postgres_url=database) as lab:
        host, port = lab.base.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET {API}/events HTTP/1.1\r\nconnection: close\r\n{headers_of(lab.browser)}\r\n".encode())
        await soon(reader.readuntil(b"ready"))
        told = 400
        for _ in range(told):
            await lab.service.parts.hub.tell("all", "workspace", {"x": "x" * 30_000})
        assert lab.measured("pallas_workspaces_event_streams") == 1
        assert (await lab.browser.post(f"{API}/logout")).status_code == 204
        left = await soon(reader.read())
        assert len(left) < told * 30_000
        writer.close()


async def test_a_stream_of_the_command_line_has_no_session(database: str) -> None:
    async with (
        a_workspaces(postgres_url=database) as lab,
        client_of(lab.base, ("admin", PASSWORD)) as http,
        http.stream("GET", f"{API}/events", timeout=None) as answer,
    ):
        assert (await lab.browser.post(f"{API}/logout")).status_code == 204
        assert (await soon(anext(answer.aiter_lines()))).startswith("event: ready")
