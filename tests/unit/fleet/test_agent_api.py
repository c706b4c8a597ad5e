"""The client of AgentAPI on a recorded session of a real one, played by a server on a socket."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx2
import pytest
from pydantic import SecretStr
from tests.unit.fleet.recordings import DATA
from tests.unit.fleet.socket_server import Answering, Request, Server, json_reply, reply, serving

from fleet.reaching.http import Http
from fleet.terminal.agent_api import Said, Status, Terminal, Trouble
from pallas_contracts.errors import Conflict, Rejected, Unavailable

SESSION: dict[str, Any] = json.loads((DATA / "agentapi-recordings.json").read_text("utf-8"))
LINES: list[str] = SESSION["sse_lines"]
RECORDED: dict[str, Any] = {one["note"]: one for one in SESSION["recorded"]}


@asynccontextmanager
async def terminal_at(answering: Answering) -> AsyncGenerator[tuple[Terminal, Server]]:
    """A terminal behind a server."""
    async with serving(answering) as server:
        http = Http("https://coder.example", SecretStr("secret"))
        try:
            yield Terminal(http, httpx2.URL(f"{server.url}/@owner/papi.main/apps/ccw/"), "workspace 'papi'"), server
        finally:
            await http.close()


def play(note: str) -> Answering:
    """Answer as in the recording of this note, if the request is the recorded one."""
    one = RECORDED[note]

    def answer(request: Request) -> bytes:
        assert request.method == one["request"]["method"]
        assert request.path == f"/@owner/papi.main/apps/ccw{one['request']['path']}"
        assert (json.loads(request.body) if request.body else None) == one["request"]["body"]
        body = one["response"]["body"]
        text = body if isinstance(body, str) else json.dumps(body)
        return reply(one["response"]["status"], text, one["response"]["content_type"])

    return answer


async def stream(lines: list[str]) -> AsyncGenerator[bytes]:
    """Lines of a stream of events, in pieces that are not lines."""
    text = "".join(f"{line}\n" for line in lines).encode()
    for begin in range(0, len(text), 1000):
        yield text[begin : begin + 1000]


async def heard(lines: list[str]) -> list[Said | Status | Trouble]:
    """The events that a terminal tells."""
    async with terminal_at(lambda _: stream(lines)) as (terminal, _):
        return [event async for event in terminal.events()]


@pytest.mark.parametrize(("note", "status"), [("right after start", "running"), ("poll", "stable")])
async def test_the_status_is_the_recorded_one(note: str, status: str) -> None:
    async with terminal_at(play(note)) as (terminal, _):
        assert await terminal.status() == status


async def test_messages_are_without_the_spaces_of_the_terminal() -> None:
    async with terminal_at(play("after first task")) as (terminal, _):
        assert [(said.id, said.role, said.text) for said in await terminal.messages()] == [
            (0, "agent", "Hello! I am the echo agent."),
            (1, "user", "first task"),
            (2, "agent", "done first task"),
        ]


async def test_a_prompt_and_keys_are_sent_as_recorded() -> None:
    async with terminal_at(play("user message while stable")) as (terminal, _):
        await terminal.say("first task")
    async with terminal_at(play("raw ESC while running (interrupt)")) as (terminal, _):
        await terminal.press("\x1b")


async def test_a_terminal_that_works_takes_no_prompt() -> None:
    async with terminal_at(play("user message while running")) as (terminal, server):
        with pytest.raises(Conflict, match=r"^The terminal of workspace 'papi' is working") as caught:
            await terminal.say("too early")
        assert caught.value.code == "terminal_busy"
        assert len(server.requests) == 1


async def test_a_blank_prompt_is_refused() -> None:
    async with terminal_at(play("blank content")) as (terminal, _):
        with pytest.raises(Rejected):
            await terminal.say("  ")


@pytest.mark.parametrize("note", ["unknown path", "disallowed Host header", "invalid type"])
async def test_other_refusals_mean_that_nothing_was_typed(note: str) -> None:
    one = RECORDED[note]["response"]
    async with terminal_at(lambda _: reply(one["status"], json.dumps(one["body"]))) as (terminal, _):
        for call in (terminal.say("x"), terminal.press("x"), terminal.status()):
            with pytest.raises(Unavailable) as caught:
                await call
            assert (caught.value.code, caught.value.facts["status"]) == ("terminal_unavailable", one["status"])


async def test_nobody_knows_whether_a_prompt_was_typed_that_ended_in_another_error() -> None:
    problem = {"detail": "unexpected error occurred", "errors": [{"message": "failed to wait for the screen"}]}
    async with terminal_at(lambda _: json_reply(problem, 500)) as (terminal, _):
        with pytest.raises(Unavailable) as caught:
            await terminal.say("x")
        assert (caught.value.code, caught.value.facts["status"]) == ("uncertain", 500)


async def test_the_recorded_session_ends_with_the_recorded_messages() -> None:
    assert len(LINES) == 138
    events = await heard(LINES)
    statuses = [event.status for event in events if isinstance(event, Status)]
    messages = {event.id: (event.role, event.text) for event in events if isinstance(event, Said)}
    assert statuses == ["running", "stable"] * 3
    assert len(events) - len(statuses) == 40
    async with terminal_at(play("end")) as (terminal, _):
        assert messages == {said.id: (said.role, said.text) for said in await terminal.messages()}


async def test_events_of_other_kinds_and_unreadable_ones_are_left_out() -> None:
    lines = ["event: screen_update", 'data: {"screen": "x"}', "", ": ping", ""]
    lines += ["event: status_change", 'data: {"status": "dreaming"}', "", "event: message_update", "data: [", ""]
    lines += ["event: agent_error", 'data: {"message": "it died", "level": "error", "time": "now"}', ""]
    assert await heard(lines) == [Trouble(message="it died", level="error")]


async def test_events_end_when_the_connection_breaks() -> None:
    half = reply(200, "x" * 500, "text/event-stream")[:-500] + b'event: status_change\ndata: {"status":"stable"}\n\n'
    async with terminal_at(lambda _: half + b"reset") as (terminal, _):
        assert [event async for event in terminal.events()] in ([Status(status="stable")], [])


async def test_an_event_without_end_ends_the_events() -> None:
    async def endless() -> AsyncGenerator[bytes]:
        yield b"data: "
        while True:
            yield b"x" * 65536

    async with terminal_at(lambda _: endless()) as (terminal, _):
        assert [event async for event in terminal.events()] == []


async def test_who_stops_listening_closes_the_connection() -> None:
    closed = asyncio.Event()

    async def forever() -> AsyncGenerator[bytes]:
        try:
            while True:
                yield b'event: status_change\ndata: {"status":"stable"}\n\n'
                await asyncio.sleep(0)
        finally:
            closed.set()

    async with terminal_at(lambda _: forever()) as (terminal, _):
        async with aclosing(terminal.events()) as events:
            async for _ in events:
                break
        await closed.wait()
