"""The fleet: coding agents, as tools of the agent `fleet/fleet`; and what they write, live from the broker.

The lines are progress of the turns that are tasks. Nobody but an operator may read these, so they come from the broker.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pallas_cli.calling import Document, Show, document_of, refusal_of
from pallas_cli.plain_text import plain_line, print_plain
from pallas_cli.refused import Refused, not_reached
from pallas_mcp_calls.model import CallFailed, Progress, Target

if TYPE_CHECKING:
    from pallas_bus.access import Access
    from pallas_mcp_calls.calls import AgentCalls
    from pallas_turns.history.replays import Recorded


ENDPOINT = "/teams/fleet/mcp/fleet"
_STEP = "fleet/"
"""How progress begins that names a step of a tool (`fleet/find: started`). Other progress is what the tool says."""


@dataclass
class FleetCalls:
    """The fleet at the gateway `url`."""

    url: str
    _calls: "AgentCalls"
    _target: Target

    async def ask(self, tool: str, *, show: Show | None = None, **arguments: object) -> Document:
        """Call a tool and return its answer. Arguments that are None are left out; `show` gets each line of progress.

        Raises:
            Refused: the fleet refuses the call, or there is no answer.
        """

        async def told(progress: Progress) -> None:
            if show is not None and progress.message and not progress.message.startswith(_STEP):
                show(progress.message)

        given = {name: value for name, value in arguments.items() if value is not None}
        try:
            answer = await self._calls.call(self._target, tool, given, on_progress=told)
        except CallFailed as error:
            raise self._unreachable(error) from error
        if answer.failed:
            raise refusal_of(answer.text)
        document: Document | list[object] | None = document_of(answer.text)
        if not isinstance(document, dict):
            raise Refused(f"{self.url} answers, but not as a fleet")
        return document

    def _unreachable(self, error: CallFailed) -> Refused:
        if error.code == "unreachable":
            return not_reached(f"the gateway at {self.url}")
        if error.code == "not_found":
            return Refused(f"the gateway at {self.url} has no fleet")
        return Refused(f"the fleet does not answer: {error}")


@asynccontextmanager
async def fleet_at(gateway: str, token: str | None) -> AsyncGenerator[FleetCalls]:
    """Connect to the fleet; `token` is the bearer for the gateway."""
    from pallas_mcp_calls.calls import AgentCalls

    base = gateway.rstrip("/")
    async with AgentCalls() as calls:
        yield FleetCalls(base, calls, Target(f"{base}{ENDPOINT}", token))


_EVERY = 1.0
"""Seconds between two looks at the statuses."""


@dataclass
class Watch:
    """What is printed: of all agents, or of the one named `only`."""

    fleet: FleetCalls
    only: str | None
    as_json: bool
    _known: dict[str, tuple[str, str | None]] = field(default_factory=dict[str, tuple[str, str | None]])
    _trouble: str | None = None

    async def run(self, access: Callable[[], "Access"]) -> None:
        """Print until cancelled.

        Raises:
            Refused: the agent does not exist, or the fleet does not answer at the beginning.
        """
        await self.look(first=True)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._lines(access))
            group.create_task(self._statuses())

    async def look(self, *, first: bool = False) -> None:
        """Print what has changed in the statuses."""
        try:
            agents = (await self.fleet.ask("list_agents"))["agents"]
        except Refused as error:
            if first:
                raise
            self._troubled(error.lines[0])
            return
        self._troubled(None)
        mine = {it["name"]: it for it in agents if self.only is None or it["name"].lower() == self.only.lower()}
        if first and self.only is not None and not mine:
            raise Refused(f"Agent '{self.only}' does not exist.")
        for name, agent in mine.items():
            now = (agent["status"], agent["current_task"])
            if self._known.get(name) != now:
                self._known[name] = now
                self._print(name, {"status": now[0], "current_task": now[1]}, ": ".join(filter(None, now)))
        for name in self._known.keys() - mine.keys():
            del self._known[name]
            self._print(name, {"status": "deleted", "current_task": None}, "deleted")

    async def _statuses(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            await self.look()

    async def _lines(self, access: Callable[[], "Access"]) -> None:
        """Print what agents write. Without the broker there are statuses only."""
        try:
            async with _written(access()) as messages:
                while True:
                    for name, line in _said(await messages.get()):
                        if self.only is None or name.lower() == self.only.lower():
                            self._print(name, {"line": line}, f"| {line}")
        except Refused as refusal:
            print_plain(f"pallas: no lines of agents, only statuses: {refusal}", err=True)

    def _troubled(self, trouble: str | None) -> None:
        if trouble is not None and trouble != self._trouble:
            print_plain(f"pallas: {trouble}", err=True)
        self._trouble = trouble

    def _print(self, name: str, document: Document, text: str) -> None:
        now = datetime.now(UTC)
        if self.as_json:
            told = {"at": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "agent": name, **document}
            print(json.dumps(told, ensure_ascii=False), flush=True)
        else:
            print_plain(f"{now.astimezone():%H:%M:%S} {plain_line(name)} {plain_line(text)}")


@asynccontextmanager
async def _written(access: "Access") -> AsyncGenerator["asyncio.Queue[Recorded]"]:
    from pallas_cli.broker import platform
    from pallas_contracts.catalog import FLEET_TASKS_AGENT, FLEET_TEAM, TURN_CONTENT
    from pallas_turns.history.tail import tail_streams

    subject = TURN_CONTENT.template.filter(team=FLEET_TEAM, agent=FLEET_TASKS_AGENT)
    async with platform(access) as bus, tail_streams(bus, subject) as messages:
        yield messages


def _said(message: "Recorded") -> list[tuple[str, str]]:
    """Agents and what they wrote, in a message of the log. The fleet puts the agent's name before each line."""
    from pallas_contracts.turns import Progress, TurnEvents
    from pallas_turns.history.tail import entry_of

    entry = entry_of(message)
    if entry is None or not isinstance(entry.entry, TurnEvents):
        return []
    told = [event.message for event in entry.entry.events if isinstance(event, Progress) and event.message]
    return [(name, line) for name, colon, line in (text.partition(": ") for text in told) if colon]
