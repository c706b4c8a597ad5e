"""A lab of turns: the log as the gateway sees it, workers of the test, and a worker that can be lost on purpose."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.builders import turn_requested
from tests.integration.real_parts import a_lab, a_process, a_worker, measured
from tests.waiting import PATIENCE, Collected, eventually, soon

from pallas_bus.transport.connection import Bus
from pallas_bus.turnlog.claims import claim
from pallas_bus.turnlog.feed import Said, TurnFeed
from pallas_bus.turnlog.feeds import TurnFeeds
from pallas_bus.turnlog.puller import TurnPuller
from pallas_bus.turnlog.queue import Delivery, ensure_consumer, submit
from pallas_bus.turnlog.ref import TurnRef
from pallas_bus.turnlog.writer import TurnWriter
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed, Fault, Progress, Result, TurnOutcome, TurnRequested
from pallas_executor.executor import Executor
from pallas_runtime.run import Process


@dataclass
class Lost:
    """What a worker had when it was lost: it claimed the turn, and its delivery never came to an end."""

    delivery: Delivery
    writer: TurnWriter

    async def is_found_lost(self) -> None:
        """Make the broker deliver the turn again now, as it does by itself once it has waited long enough."""
        await self.delivery.nak()


@dataclass
class Lab:
    """One team and all that is done with it. `bus` is a gateway's connection."""

    bus: Bus
    feeds: TurnFeeds
    team: str
    folder: Path
    stack: AsyncExitStack
    processes: list[Process] = field(default_factory=list[Process])
    _files: list[Path] = field(default_factory=list[Path])

    def describe(self, edit: Callable[[str], str] = lambda text: text) -> Path:
        """Write the team folder."""
        return a_lab(self.folder, self.team, edit)

    async def worker(self, *, slots: int = 8) -> Executor:
        """One more worker that hosts the team, to the end of the test."""
        if not self.folder.exists():
            self.describe()
        self.processes.append(a_process("agent-worker"))
        working = a_worker(self.bus_url, self.folder, slots=slots, process=self.processes[-1])
        return await self.stack.enter_async_context(working)

    def counted(self, metric: str, agent: str = "bench", **labels: str) -> float:
        """What the workers have counted of an agent, all together."""
        return sum(measured(process, metric, team=self.team, agent=agent, **labels) for process in self.processes)

    @property
    def bus_url(self) -> str:
        """Where the broker is."""
        assert self.bus.client.connected_url is not None
        return self.bus.client.connected_url.geturl()

    def file(self) -> Path:
        """A file for `wait` to wait for."""
        self._files.append(self.folder.parent / f"go{len(self._files)}")
        return self._files[-1]

    def request(self, tool: str, agent: str = "bench", **arguments: Any) -> TurnRequested:
        """A turn to be submitted."""
        given = {name: str(value) for name, value in arguments.items()}
        return turn_requested(self.team, agent, tool=tool, arguments=given)

    def follow(self, request: TurnRequested) -> "Followed":
        """Follow a turn that has not been submitted yet."""
        return Followed(request, self.feeds.open(TurnRef.of(request)))

    async def ask(self, tool: str, agent: str = "bench", **arguments: Any) -> "Followed":
        """Submit a turn and follow it."""
        followed = self.follow(self.request(tool, agent, **arguments))
        await submit(self.bus, followed.request)
        return followed

    async def lose(self, request: TurnRequested, *, attempt: int = 1, after: int = 0) -> Lost:
        """Submit a turn to a worker that claims it and says nothing more."""
        held = Collected[Delivery]()

        def take(_agent: str, delivery: Delivery) -> bool:
            held.add(delivery)
            return True

        await ensure_consumer(self.bus, self.team, request.agent, max_concurrency=None)
        puller = TurnPuller(self.bus, lambda _agent: 0 if held.items else 1, take)
        await puller.add("lost", self.team, request.agent)
        await submit(self.bus, request)
        [delivery] = await held.count(1)
        await puller.stop()
        ref = TurnRef.of(request)
        fence = await claim(self.bus, ref, Claimed(attempt=attempt, worker="lost", at=utc_now()), after=after)
        return Lost(delivery, TurnWriter(self.bus, ref, attempt, fence))


@dataclass
class Followed:
    """A turn and what has been heard of it."""

    request: TurnRequested
    feed: TurnFeed
    said: list[Said] = field(default_factory=list[Said])

    @property
    def ref(self) -> TurnRef:
        """Where it is in the log."""
        return TurnRef.of(self.request)

    async def until[S](self, kind: type[S], within: float = PATIENCE) -> S:
        """Read on to the next thing of a kind."""

        async def look() -> S:
            async for said in self.feed:
                self.said.append(said)
                if isinstance(said, kind):
                    return said
            raise AssertionError(f"it ended without: {self.said!r}")

        return await soon(look(), within)

    async def claimed(self, attempt: int, within: float = PATIENCE) -> Claimed:
        """Read on to the claim of an attempt."""
        while (claimed := await self.until(Claimed, within)).attempt != attempt:
            pass
        return claimed

    async def works(self, attempt: int = 1, within: float = PATIENCE) -> None:
        """Read on until the tool `wait` says that it waits in an attempt."""
        while (await self.until(Progress, within)).message != f"waiting in attempt {attempt}":
            pass

    async def outcome(self, within: float = PATIENCE) -> TurnOutcome:
        """Read on to the end."""
        return await self.until(TurnOutcome, within)

    @property
    def text(self) -> str:
        """The text of the answer, or the sentence of the fault."""
        for said in reversed(self.said):
            if isinstance(said, Fault):
                return said.message
            if isinstance(said, Result):
                return "\n".join(block["text"] for block in said.content)
        raise AssertionError(f"nothing was answered: {self.said!r}")

    @property
    def attempts(self) -> list[int]:
        """The attempts that were made."""
        return [said.attempt for said in self.said if isinstance(said, Claimed)]


async def stopped(file: Path) -> None:
    """Wait until `wait` has been cancelled."""
    await eventually(lambda: file.with_suffix(".stopped").exists())
