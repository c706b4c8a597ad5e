"""Helpers for tests of agent runtimes: turns, an emitter that keeps events, the demo server as a process."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.embedded import accepts, free_port
from tests.waiting import PATIENCE

from agent_worker.teams import host_team
from pallas_contracts.errors import Superseded
from pallas_contracts.turns import Answered, ClientContext, KnownEvent, ToolStarted, TurnEvent
from pallas_hosting.folders import HostedTeam
from pallas_teams import load_team
from pallas_turns.runtime import Completed, Outcome, Turn


class Events:
    """An emitter that keeps all events in order. `superseded` makes it refuse to let tools start."""

    def __init__(self, *, superseded: bool = False) -> None:
        self.all: list[KnownEvent] = []
        self.superseded = superseded
        self._came = asyncio.Event()

    def emit(self, event: KnownEvent) -> None:
        self.all.append(event)
        self._came.set()

    async def answered(self, event: Answered) -> bool:
        self.emit(event)
        return event.answer is not None

    async def tool_starting(self, event: ToolStarted) -> None:
        if self.superseded:
            raise Superseded("another attempt has taken over")
        self.emit(event)

    def of[E: TurnEvent](self, kind: type[E]) -> list[E]:
        return [event for event in self.all if isinstance(event, kind)]

    async def until[E: TurnEvent](self, kind: type[E], timeout: float = PATIENCE) -> E:
        """Wait for the first event of a type."""
        async with asyncio.timeout(timeout):
            while not (found := self.of(kind)):
                self._came.clear()
                await self._came.wait()
        return found[0]

    def lines(self) -> list[str]:
        """The events as short progress lines, without text and usage."""
        lines: list[str] = []
        for event in self.all:
            match event.type:
                case "step":
                    lines.append(f"{event.agent} step {event.n} ({event.kind})")
                case "tool_started" | "tool_completed" | "tool_failed":
                    lines.append(f"{event.server}/{event.tool}: {event.type.removeprefix('tool_')}")
                case "tool_progress":
                    lines.append(f"{event.server}/{event.tool}: {event.message}")
                case _:
                    pass
        return lines


def a_turn(agent: str = "harper", tool: str | None = None, *, remaining: float = 30.0, **arguments: Any) -> Turn:
    """A first attempt at a call with these arguments."""
    client = ClientContext(protocol_version="2026-07-28")
    return Turn("0" * 32, "demo", agent, tool or agent, arguments, 1, remaining, client)


def text_of(outcome: Outcome) -> str:
    """The answer's text. Fails if there is none."""
    assert isinstance(outcome, Completed), outcome
    return "\n".join(block["text"] for block in outcome.result.content)


async def a_team(folder: Path, files: Mapping[str, str], environ: Mapping[str, str] | None = None) -> HostedTeam:
    """Write a team folder and host it."""
    for name, text in files.items():
        (folder / name).write_text(text)
    return await host_team(load_team(folder, environ or {}))


class DemoServer:
    """The demo MCP server as a process, which can be stopped and started on the same port.

    `program` is what to run in its place; it is given the port as its last argument.
    """

    def __init__(self, log: Path, *program: str) -> None:
        self.port = free_port()
        self.log = log
        self._program = program or ("-m", "pallas_demo", "--port")
        self._process: subprocess.Popen[bytes] | None = None
        self._hangs = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def start(self) -> None:
        """Start it and wait until its port answers."""
        command = [sys.executable, *self._program, str(self.port)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stderr=log)
        wait_for(self._answers, "the demo server does not answer")

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process, self._hangs = None, False

    def hang(self) -> None:
        """From now on it accepts connections and requests, and answers none."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        self._hangs = True

    def renew(self) -> None:
        """Start it again if a test has killed it or let it hang, and empty its log."""
        if self._hangs:
            self.kill()
        if self._process is None:
            self.start()
        self.log.write_text("")

    def _answers(self) -> bool:
        return accepts(self.port)

    def logged(self, text: str) -> int:
        """How often the text is in the log."""
        return self.log.read_text().count(text)


def wait_for(condition: Any, what: str, timeout: float = PATIENCE) -> None:
    """Block until the condition holds; for processes without an event."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)
