"""Two processes of each worker that host one team, with an agent for each runtime, and turns for them."""

import json
import os
import shutil
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.builders import turn_requested
from tests.conftest import a_nats
from tests.integration.agent_worker.lab import Followed
from tests.integration.bus.turns import attempt_of
from tests.integration.processes import Service, a_service
from tests.integration.real_parts import OWNED
from tests.integration.worker_promises.workbench import Workbench, a_workbench

from pallas_bus.connection import Bus, connect
from pallas_bus.streams import declare
from pallas_cli.processes.fast_agent import fast_agent_python
from pallas_cli.refused import Refused
from pallas_contracts.catalog import GATEWAY
from pallas_contracts.turns import TurnRequested
from pallas_turns.claims import TurnRef
from pallas_turns.feeds import TurnFeeds, follow_turns
from pallas_turns.queue import submit
from pallas_turns.write import TurnWriter

type Call = tuple[str, Mapping[str, Any]]
"""A tool of the workbench and its arguments."""

TEAM = "promises"
KINDS = {"agent_worker": ("function", "llm"), "fast_agent_worker": ("fast-agent",)}
"""The runtimes of each worker. Agents have their names."""


def pythons() -> dict[str, str]:
    """The Python of each worker. That of fast-agent is missing where its packages cannot be installed."""
    found = {"agent_worker": sys.executable}
    with suppress(Refused):
        found["fast_agent_worker"] = str(fast_agent_python(os.environ, print))
    return found


PYTHONS = pythons()


@dataclass
class Stage:
    """What runs. `bus` is a gateway's connection."""

    bus: Bus
    feeds: TurnFeeds
    bench: Workbench
    workers: Mapping[str, list[Service]]

    def request(self, agent: str, *calls: Call) -> TurnRequested:
        """A turn that calls these tools, one after another. Without any, it answers with its history."""
        kind = agent.removesuffix("-brief")
        tool = "call" if kind == "function" else agent
        return turn_requested(TEAM, agent, tool=tool, arguments={"message": message_of(kind, calls)})

    def follow(self, request: TurnRequested) -> Followed:
        """Follow a turn that has not been submitted yet."""
        return Followed(request, self.feeds.open(TurnRef.of(request)))

    async def ask(self, agent: str, *calls: Call) -> Followed:
        """Submit a turn and follow it."""
        followed = self.follow(self.request(agent, *calls))
        await submit(self.bus, followed.request)
        return followed

    async def lose(self, turn: Followed, attempt: int = 1) -> TurnWriter:
        """Claim a turn in the name of a worker that is gone, before it is submitted."""
        return await attempt_of(self.bus, turn.request, attempt)


def message_of(kind: str, calls: Sequence[Call]) -> str:
    """What makes an agent of this kind call these tools."""
    match kind:
        case "function":
            return json.dumps(calls)
        case "llm":
            return "\n".join(f"/tool bench/{tool} {json.dumps(given)}" for tool, given in calls) or "/history"
        case _:
            message = ""
            for tool, given in reversed(calls):
                then = {"answer": message} if message else {}
                message = f"***CALL_TOOL bench__{tool} {json.dumps({**given, **then})}"
            return message or "hello"


@asynccontextmanager
async def a_stage(place: Path) -> AsyncGenerator[Stage]:
    """A broker, the workbench, and all workers."""
    async with AsyncExitStack() as stack:
        url = stack.enter_context(a_nats())
        bench = await stack.enter_async_context(a_workbench())
        bus = await stack.enter_async_context(connect(url, GATEWAY))
        await declare(bus, *OWNED)
        feeds = await stack.enter_async_context(follow_turns(bus))
        folder = place / TEAM
        shutil.copytree(Path(__file__).parent / "team", folder, ignore=shutil.ignore_patterns("__pycache__"))
        config = {"mcp": {"servers": {"bench": {"transport": "http", "url": bench.url}}}}
        (folder / "fastagent.config.yaml").write_text(json.dumps(config), "utf-8")
        workers = {
            module: [
                await stack.enter_async_context(
                    a_service(module, url, place, f"{module}-{number}", python=python, teams=str(folder))
                )
                for number in (1, 2)
            ]
            for module, python in PYTHONS.items()
        }
        for each in workers.values():
            for worker in each:
                await worker.ready()
        yield Stage(bus, feeds, bench, workers)
