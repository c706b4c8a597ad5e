"""The broker and the two gateways that all runs of one test share. Each run has its own team."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

from pallas_bus.connection import Bus, connect
from pallas_bus.reads import read
from pallas_bus.streams import declare
from pallas_contracts.agents import WorkerPresence
from pallas_contracts.catalog import DEAD_LETTERS, GATEWAY, TURN_LOG, TURN_QUEUE, WORKERS
from pallas_contracts.errors import PallasError
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed, ToolStarted, TurnClaim, TurnEvents, TurnOutcome
from pallas_turns.feeds import TurnFeeds, follow_turns

NO_MESSAGE = 10037


@dataclass
class Log:
    """The log of a turn, in the form of the model."""

    claims: list[int | str] = field(default_factory=list[int | str])
    started: list[int] = field(default_factory=list[int])
    outcomes: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, str | None]])


@dataclass(frozen=True)
class Stage:
    """Two gateways' connections and feeds, and the loop in which everything runs while a step is carried out."""

    runner: asyncio.Runner
    bus: Bus
    feeds: TurnFeeds
    other: Bus
    other_feeds: TurnFeeds

    def new_name(self, kind: str = "w") -> str:
        """A unique name."""
        return f"{kind}{uuid4().hex[:12]}"

    def presence(self, worker: str) -> WorkerPresence:
        """The presence of a running worker."""
        return WorkerPresence(worker=worker, slots=8, at=utc_now())

    async def read(self, turn_id: str) -> Log:
        """Read a turn's log."""
        log = Log()
        async for record in read(self.bus, TURN_LOG.name, f"pallas.v1.turn.*.*.*.{turn_id}"):
            match record.subject.split(".")[3]:
                case "claim":
                    claim = TurnClaim.model_validate_json(record.data).claim
                    log.claims.append(claim.attempt if isinstance(claim, Claimed) else "cancel")
                case "event":
                    batch = TurnEvents.model_validate_json(record.data)
                    log.started += [batch.attempt for event in batch.events if isinstance(event, ToolStarted)]
                case "outcome":
                    outcome = TurnOutcome.model_validate_json(record.data)
                    log.outcomes.append((outcome.status, outcome.code))
                case _:
                    pass
        return log

    async def is_queued(self, position: int) -> bool:
        """Whether the message at a position of the queue is still there."""
        try:
            await self.bus.api(f"STREAM.MSG.GET.{TURN_QUEUE.name}", {"seq": position})
        except PallasError as error:
            if error.facts.get("err_code") == NO_MESSAGE:
                return False
            raise
        return True


@contextmanager
def a_stage(url: str) -> Generator[Stage]:
    """Connect both gateways, in a loop that runs only while something is carried out."""
    with asyncio.Runner() as runner:
        opened = _opened(url, runner)
        stage = runner.run(anext(opened))
        try:
            yield stage
        finally:
            runner.run(opened.aclose())


async def _opened(url: str, runner: asyncio.Runner) -> AsyncGenerator[Stage]:
    async with (
        connect(url, GATEWAY) as bus,
        connect(url, GATEWAY) as other,
    ):
        await declare(bus, TURN_QUEUE, TURN_LOG, DEAD_LETTERS, WORKERS)
        async with follow_turns(bus) as feeds, follow_turns(other) as other_feeds:
            yield Stage(runner, bus, feeds, other, other_feeds)
