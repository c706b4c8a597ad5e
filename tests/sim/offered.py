"""The offered load: so many callers as the moment wants, each of which asks for a turn, follows it, and asks again."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

from tests.builders import turn_requested

from pallas_bus.connection import Bus
from pallas_contracts.turns import Claimed, TurnOutcome
from pallas_turns.claims import TurnRef
from pallas_turns.feeds import TurnFeeds
from pallas_turns.queue import submit

type Schedule = Sequence[tuple[float, int]]
"""Moments, and how many callers there are then; in between as many as lie on the line."""


def callers_at(schedule: Schedule, moment: float) -> int:
    """How many callers there are at a moment."""
    for (begin, before), (end, after) in pairwise(schedule):
        if begin <= moment < end:
            return round(before + (after - before) * (moment - begin) / (end - begin))
    return schedule[-1][1] if moment >= schedule[-1][0] else 0


@dataclass(frozen=True, slots=True)
class Turn:
    """How one turn went: when it was asked for, how long it waited, and how it ended."""

    asked: datetime
    waited: float
    attempts: int
    completed: bool


@dataclass
class Offered:
    """The present callers. Above `limit` they leave, each after its turn."""

    bus: Bus
    feeds: TurnFeeds
    team: str
    agent: str
    group: asyncio.TaskGroup
    limit: int = 0
    callers: int = 0
    turns: list[Turn] = field(default_factory=list[Turn])

    def allow(self, limit: int) -> None:
        """Set the number of callers."""
        self.limit = limit
        while self.callers < limit:
            self.callers += 1
            self.group.create_task(self._call())

    async def _call(self) -> None:
        while self.callers <= self.limit:
            self.turns.append(await self._turn())
        self.callers -= 1

    async def _turn(self) -> Turn:
        request = turn_requested(self.team, self.agent)
        feed = self.feeds.open(TurnRef.of(request))
        try:
            await submit(self.bus, request)
            claims: list[Claimed] = []
            async for said in feed:
                if isinstance(said, Claimed):
                    claims.append(said)
                elif isinstance(said, TurnOutcome):
                    waited = (claims[0].at - request.requested_at).total_seconds() if claims else 0.0
                    return Turn(request.requested_at, waited, len(claims), said.status == "completed")
            raise AssertionError("the feed of a turn ended without its outcome")
        finally:
            self.feeds.close(feed)


@asynccontextmanager
async def offered(bus: Bus, feeds: TurnFeeds, team: str, agent: str) -> AsyncGenerator[Offered]:
    """No callers yet; leaving the block lets all of them leave."""
    async with asyncio.TaskGroup() as group:
        load = Offered(bus, feeds, team, agent, group)
        yield load
        load.allow(0)
