"""The console's routes of turns on a real log, with a team of models and a team of functions."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from tests.builders import turn_requested
from tests.integration.real_parts import a_lab, a_worker, until
from tests.integration.workspaces.lab import API, Lab, client_of, log_in
from tests.waiting import soon

from pallas_bus.connection import Bus
from pallas_contracts.turns import TurnRequested
from pallas_runtime.http.listener import bind, listening
from pallas_turns.claims import TurnRef, stored_outcome
from pallas_turns.history.turns import TurnHistory, read_turn
from pallas_turns.queue import submit
from workspaces.http.routing import make_http
from workspaces.turns.broker import Broker

AGENTS = """
name: {team}
agents:
  plain: {{instruction: Do it.}}
  chief: {{instruction: Ask others., depends_on: [plain]}}
  broken: {{model: generic.gone}}
"""
CONFIG = "default_model: offline\ngeneric:\n  base_url: http://127.0.0.1:9/v1\n"


def a_team(folder: Path, team: str) -> Path:
    """A team of agents on the offline model; one of them asks another."""
    folder.mkdir()
    (folder / "agents.yaml").write_text(AGENTS.format(team=team))
    (folder / "fastagent.config.yaml").write_text(CONFIG)
    return folder


@dataclass
class Stage:
    """A console on a broker. `team` has models, `functions` is a team of functions."""

    bus: Bus
    url: str
    team: str
    folder: Path
    stack: AsyncExitStack
    http: httpx.AsyncClient

    @property
    def functions(self) -> str:
        """The name of the team of functions."""
        return f"lab-{self.team}"

    async def worker(self) -> None:
        """A worker for both teams, in this process."""
        folders = a_team(self.folder / "team", self.team), a_lab(self.folder / "lab", self.functions)
        await self.stack.enter_async_context(a_worker(self.url, *folders))

    async def ask(self, agent: str = "plain", tool: str | None = None, **arguments: Any) -> TurnRequested:
        """Submit a turn."""
        team = self.functions if agent in ("bench", "sure", "once") else self.team
        request = turn_requested(team, agent, tool=tool, arguments=arguments)
        await submit(self.bus, request)
        return request

    async def ended(self, request: TurnRequested | str) -> None:
        """Wait for the end of a turn."""

        async def over() -> bool:
            if isinstance(request, str):
                found = await read_turn(self.bus, request)
                return found is not None and found.outcome is not None
            return await stored_outcome(self.bus, TurnRef.of(request)) is not None

        await until(over)

    async def turn(self, agent: str = "plain", tool: str | None = None, **arguments: Any) -> TurnRequested:
        """Execute a turn to its end."""
        request = await self.ask(agent, tool, **arguments)
        await self.ended(request)
        return request

    async def history(self, request: TurnRequested) -> TurnHistory:
        """What the log has of a turn so far."""
        found = await read_turn(self.bus, request.turn_id)
        assert found is not None
        return found

    async def get(self, path: str, status: int = 200, **params: Any) -> dict[str, Any]:
        """The answer of a route below `/turns`."""
        answer = await self.http.get(f"{API}/turns{path}", params=params)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def again(self, request: TurnRequested, status: int = 202, **changes: Any) -> dict[str, Any]:
        """The answer to executing a turn again."""
        answer = await self.http.post(f"{API}/turns/{request.turn_id}/again", json=changes)
        assert answer.status_code == status, answer.text
        return answer.json()

    @asynccontextmanager
    async def events(self, **params: Any) -> AsyncGenerator["Events"]:
        """The live list."""
        async with self.http.stream("GET", f"{API}/turns/events", params=params) as answer:
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/event-stream")
            events = Events(answer)
            assert await events.next() == ("ready", {})
            yield events


class Events:
    """Server-sent events, one after the other."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.aiter_lines()

    async def next(self) -> tuple[str, dict[str, Any]]:
        """Name and data of the next event."""
        return await soon(self._next())

    async def until(self, name: str, **wanted: Any) -> dict[str, Any]:
        """The data of the next event of that name that has these values."""
        while True:
            found, data = await self.next()
            if found == name and wanted.items() <= data.items():
                return data

    async def _next(self) -> tuple[str, dict[str, Any]]:
        name, data = "", ""
        async for line in self._lines:
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                data = line[6:]
            elif not line and name:
                return name, json.loads(data)
        raise EOFError


@asynccontextmanager
async def a_console(
    lab: Lab, bus: Bus | None, stopping: asyncio.Event | None = None
) -> AsyncGenerator[httpx.AsyncClient]:
    """A client of the service with this connection to the broker, which drains from `stopping` on."""
    listener, broker = bind("127.0.0.1", 0), Broker()
    parts = replace(lab.service.parts, broker=broker, stopping=stopping or asyncio.Event())
    async with (
        listening(make_http(parts), listener, drain_seconds=1),
        client_of(f"http://127.0.0.1:{listener.getsockname()[1]}") as client,
    ):
        assert (await log_in(client)).status_code == 200
        with broker.using(bus) if bus is not None else nullcontext():
            yield client
        parts.stopping.set()
