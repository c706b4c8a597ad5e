"""A stream of events as bytes."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from starlette.types import Message
from tests.waiting import soon

from workspaces.http import event_stream
from workspaces.http.event_stream import EventStream, event_of


def test_an_event_has_a_number_if_it_can_be_resumed_from() -> None:
    assert event_of("message", '{"a":"ä"}', 7) == 'event: message\ndata: {"a":"ä"}\nid: 7\n\n'.encode()
    assert event_of("bye") == b"event: bye\ndata: {}\n\n"


async def test_a_silent_stream_is_pinged_and_its_source_ends_with_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "PING_SECONDS", 0.001)
    sent, gone, closed = asyncio.Queue[Message](), asyncio.Event(), asyncio.Event()

    async def events() -> AsyncGenerator[bytes]:
        try:
            yield event_of("ready")
            await asyncio.Event().wait()
        finally:
            closed.set()

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    async with asyncio.TaskGroup() as group:
        group.create_task(EventStream(events())({"type": "http"}, receive, sent.put))
        assert (await soon(sent.get()))["status"] == 200
        assert (await soon(sent.get()))["body"] == event_of("ready")
        assert (await soon(sent.get()))["body"] == (await soon(sent.get()))["body"] == b": ping\n\n"
        gone.set()
        await soon(closed.wait())


async def test_events_that_are_there_are_sent_together_but_others_run_meanwhile() -> None:
    sent, others_ran = 0, asyncio.Event()

    async def events() -> AsyncGenerator[bytes]:
        nonlocal sent
        while sent < 1000 and not others_ran.is_set():
            sent += 1
            yield event_of("message")

    async def send(_message: Message) -> None:
        if sent == 1:
            asyncio.get_running_loop().call_soon(others_ran.set)

    async def receive() -> Message:
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    await soon(EventStream(events())({"type": "http"}, receive, send))
    assert 1 < sent < 1000
