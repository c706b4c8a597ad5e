"""The stand-in's AgentAPI beside a recorded session of AgentAPI 0.12: the same answers, events of the same shape."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.coder.shapes import Shape, recorded
from tests.waiting import eventually

from pallas_demo.coder import DEMO_AGENT, TerminalSettings
from pallas_demo.coder.agentapi import agent_api
from pallas_demo.coder.listener import Listener
from pallas_demo.coder.terminal import Terminal

SESSION: dict[str, Any] = recorded("agentapi-recordings")
SPEC: dict[str, Any] = recorded("agentapi-openapi")
STABLE_AFTER = 0.3
ECHO = """
import sys, time
print("Hello! I am the echo agent.", flush=True)
for line in sys.stdin:
    for frame in range(12):
        print(f"\\rThinking {'|/-'[frame % 3]}.", end="", flush=True)
        time.sleep(0.1)
    print(f"\\r\\033[Kdone {line.strip().strip(chr(27))}", flush=True)
"""


class Session:
    """A program behind AgentAPI, and a client of it."""

    def __init__(self, terminal: Terminal, client: httpx.AsyncClient) -> None:
        self.terminal, self.client = terminal, client
        self.events: list[tuple[str, dict[str, Any]]] = []

    async def listen(self) -> None:
        """Collect events until the program ends."""
        name = ""
        async with self.client.stream("GET", "/events", timeout=None) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            async for line in stream.aiter_lines():
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    self.events.append((name, json.loads(value)))

    async def until(self, status: str) -> None:
        """Wait until the terminal says so."""
        async with asyncio.timeout(20):
            async for _ in self.terminal.events("status_change"):
                if self.terminal.status == status:
                    return

    async def send(self, text: str, kind: str = "user") -> httpx.Response:
        """Post a message."""
        return await self.client.post("/message", json={"content": text, "type": kind})

    async def messages(self) -> list[dict[str, Any]]:
        """The conversation."""
        return (await self.client.get("/messages")).json()["messages"]


@pytest.fixture
async def session(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Session]:
    """The demo agent, or the program that the test's parameter names."""
    command: tuple[str, ...] = getattr(request, "param", DEMO_AGENT)
    terminal, listener = Terminal(TerminalSettings(stable_after=STABLE_AFTER)), Listener(0)
    await terminal.start(command, tmp_path, {"PATH": "/usr/bin:/bin", "TERM": "xterm"}, "")
    await listener.open(agent_api(terminal))
    async with httpx.AsyncClient(base_url=listener.url, trust_env=False, timeout=20) as client:
        try:
            yield Session(terminal, client)
        finally:
            await terminal.close()
            await listener.close()
            await listener.idle()


def text_of(message: dict[str, Any]) -> list[str]:
    """The lines of a message without their padding."""
    return [line.rstrip() for line in message["content"].splitlines()]


@pytest.mark.parametrize("session", [(sys.executable, "-c", ECHO)], indirect=True)
async def test_the_recorded_session_is_answered_as_it_was(session: Session) -> None:
    listening = asyncio.create_task(session.listen())
    for one in SESSION["recorded"]:
        asked, expected = one["request"], one["response"]
        if one["note"] in ("poll", "poll until stable", "second", "end"):
            await session.until("stable")
        answer = await session.client.request(
            asked["method"], asked["path"], json=asked["body"], headers=asked["headers"]
        )
        assert answer.status_code == expected["status"], one["note"]
        assert answer.headers["content-type"] == expected["content_type"]
        if not isinstance(expected["body"], dict):
            assert answer.text == expected["body"]
            continue
        shape = Shape()
        shape.add(expected["body"])
        assert list(shape.faults(answer.json())) == [], one["note"]
        if answer.status_code != 200:
            assert answer.json() | {"$schema": ""} == expected["body"] | {"$schema": ""}
    await session.until("stable")
    assert [(message["role"], text_of(message)[-1]) for message in await session.messages()] == [
        (message["role"], message["content"].rstrip())
        for message in SESSION["recorded"][-1]["response"]["body"]["messages"]
    ]
    await session.terminal.close()
    await listening
    lines: list[str] = SESSION["sse_lines"]
    theirs = {
        name.removeprefix("event: "): json.loads(data.removeprefix("data: "))
        for name, data in pairwise(lines)
        if name.startswith("event: ")
    }
    for name, data in session.events:
        if name != "agent_error":
            assert data.keys() == theirs[name].keys()
    order = distinct([data for _, data in session.events[:-1]])
    assert order == distinct([json.loads(line[6:]) for line in lines if line.startswith("data: ")])


def distinct(events: list[dict[str, Any]]) -> list[str]:
    """The order of events without repetitions, and without the greeting, which the recording joins later."""
    words = [data.get("status") or f"{data['id']} {data['role']}" for data in events]
    return [word for word, _ in groupby(word for word in words if word != "0 agent")]


async def test_prompts_are_typed_once_and_answered(session: Session) -> None:
    for text in (
        "write notes/a.txt: hello",
        "say one\nsay two",
        "write notes/a.txt: hello",
        "é" * 300,
        "say " + "x" * 5000,
    ):
        await session.until("stable")
        assert (await session.send(text)).status_code == 200
    await session.until("stable")
    assert (session.terminal.folder / "notes" / "a.txt").read_text() == "hello\n"
    messages = await session.messages()
    assert [message["id"] for message in messages] == list(range(11))
    assert [text_of(message) for message in messages[2:7:2]] == [
        ["wrote notes/a.txt"],
        ["one", "two"],
        ["wrote notes/a.txt"],
    ]
    assert all(len(line) == 80 for message in messages[::2] for line in message["content"].splitlines())
    prompts = (session.terminal.folder / ".demo-agent" / "prompts").read_text().splitlines()
    assert prompts[0] == "write notes/a.txt: hello"
    assert len(prompts) == 5
    assert len(prompts[-1]) == 5004


async def test_escape_interrupts(session: Session) -> None:
    await session.until("stable")
    await session.send("ignore ESC once; work 30 s")
    await session.send("\x1b", "raw")
    await eventually((session.terminal.folder / ".demo-agent" / "escapes").exists)
    assert session.terminal.status == "running"
    await session.send("\x1b", "raw")
    await session.until("stable")
    assert text_of((await session.messages())[-1])[-1] == "Interrupted by user"


async def test_a_program_that_hangs_stays_busy_and_one_that_crashes_ends_the_events(session: Session) -> None:
    await session.until("stable")
    listening = asyncio.create_task(session.listen())
    await session.send("work 0.2 s; crash")
    await listening
    assert session.events[-1][0] == "agent_error"
    assert session.events[-1][1]["level"] == "error"
    assert (await session.send("more")).status_code == 500


async def test_a_hanging_program_ignores_escape(session: Session) -> None:
    await session.until("stable")
    await session.send("hang")
    await session.send("\x1b", "raw")
    assert (await session.send("more")).status_code == 500
    await asyncio.sleep(2 * STABLE_AFTER)
    assert session.terminal.status == "running"


async def test_only_one_of_many_messages_at_once_is_typed(session: Session) -> None:
    await session.until("stable")
    answers = await asyncio.gather(*(session.send(f"say {number}") for number in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] + [500] * 19
    assert len((session.terminal.folder / ".demo-agent" / "prompts").read_text().splitlines()) == 1


async def test_files_up_to_ten_megabytes_are_taken(session: Session) -> None:
    taken = await session.client.post("/upload", files={"file": ("../../a b.txt", b"text")})
    assert taken.status_code == 200
    assert taken.json()["filePath"].startswith(str(session.terminal.folder))
    assert [path.read_bytes() for path in session.terminal.folder.glob(".uploads/*/a b.txt")] == [b"text"]
    for files, status in (({"file": ("big", b"0" * (10 << 20) + b"1")}, 413), ({"other": ("a", b"")}, 422)):
        assert (await session.client.post("/upload", files=files)).status_code == status
