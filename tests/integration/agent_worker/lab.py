"""A lab for turns: the log as the gateway reads it, workers of the test, and a worker that can be lost on purpose."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.builders import turn_requested
from tests.integration.real_parts import a_lab, a_process, a_worker, measured
from tests.waiting import PATIENCE, Collected, eventually, soon

from pallas_bus.connection import Bus
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed, Fault, Progress, Result, TurnOutcome, TurnRequested
from pallas_runtime.process import Process
from pallas_turns.claims import TurnRef, claim
from pallas_turns.executor import Executor
from pallas_turns.feed import FeedItem, TurnFeed
from pallas_turns.feeds import TurnFeeds
from pallas_turns.pull import TurnPuller
from pallas_turns.queue import Delivery, ensure_consumer, submit
from pallas_turns.write import TurnWriter


@dataclass
class Lost:
    """The claim and the unsettled delivery of a lost worker."""

    delivery: Delivery
    writer: TurnWriter

    async def redeliver(self) -> None:
        """Make the broker deliver the turn again now, and not only after its timeout."""
        await self.delivery.nak()


@dataclass
class Lab:
    """One team, its workers and turns. `bus` is a gateway's connection."""

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
        """Run one more worker that hosts the team, until the end of the test."""
        if not self.folder.exists():
            self.describe()
        self.processes.append(a_process("agent-worker"))
        working = a_worker(self.bus_url, self.folder, slots=slots, process=self.processes[-1])
        return await self.stack.enter_async_context(working)

    def counted(self, metric: str, agent: str = "bench", **labels: str) -> float:
        """The sum of a metric of an agent over all workers."""
        return sum(measured(process, metric, team=self.team, agent=agent, **labels) for process in self.processes)

    @property
    def bus_url(self) -> str:
        """The URL of the broker."""
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
        """Submit a turn to a worker that claims it and then stays silent."""
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
    """A turn, and the messages of its feed so far."""

    request: TurnRequested
    feed: TurnFeed
    messages: list[FeedItem] = field(default_factory=list[FeedItem])

    @property
    def ref(self) -> TurnRef:
        """Its address in the log."""
        return TurnRef.of(self.request)

    async def until[S](self, kind: type[S], within: float = PATIENCE) -> S:
        """Read on to the next message of a type."""

        async def look() -> S:
            async for message in self.feed:
                self.messages.append(message)
                if isinstance(message, kind):
                    return message
            raise AssertionError(f"it ended without: {self.messages!r}")

        return await soon(look(), within)

    async def claimed(self, attempt: int, within: float = PATIENCE) -> Claimed:
        """Read on to the claim of an attempt."""
        while (claimed := await self.until(Claimed, within)).attempt != attempt:
            pass
        return claimed

    async def until_waiting(self, attempt: int = 1, within: float = PATIENCE) -> None:
        """Read on until the tool `wait` reports that it waits in an attempt."""
        while (await self.until(Progress, within)).message != f"waiting in attempt {attempt}":
            pass

    async def outcome(self, within: float = PATIENCE) -> TurnOutcome:
        """Read on to the end."""
        return await self.until(TurnOutcome, within)

    @property
    def text(self) -> str:
        """The text of the answer, or the message of the fault."""
        for message in reversed(self.messages):
            if isinstance(message, Fault):
                return message.message
            if isinstance(message, Result):
                return "\n".join(block["text"] for block in message.content)
        raise AssertionError(f"nothing was answered: {self.messages!r}")

    @property
    def attempts(self) -> list[int]:
        """The attempts that were made."""
        return [message.attempt for message in self.messages if isinstance(message, Claimed)]


async def stopped(file: Path) -> None:
    """Wait until `wait` has been cancelled."""
    await eventually(lambda: file.with_suffix(".stopped").exists())
