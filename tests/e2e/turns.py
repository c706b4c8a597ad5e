"""The log of turns as an operator reads it: which turn was just claimed, its messages, and its outcome."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.waiting import Collected, soon

from pallas_bus.access import Access
from pallas_bus.connection import Bus, connect
from pallas_bus.reads import Record, read
from pallas_contracts.catalog import TURN_QUEUE
from pallas_contracts.turns import Claimed, TurnClaim, TurnOutcome
from pallas_turns.claims import TurnRef, watch_claims
from pallas_turns.feed import FeedItem
from pallas_turns.feeds import TurnFeeds, follow_turns

_LOOK_AGAIN = 0.02


@dataclass
class Turns:
    """All turns of a stack. `claims` has those since this was made."""

    bus: Bus
    feeds: TurnFeeds
    claims: Collected[TurnClaim] = field(default_factory=Collected[TurnClaim])

    async def claimed(self, agent: str, *, attempt: int = 1) -> tuple[TurnRef, Claimed]:
        """Wait for the first claim of a turn of `agent` for this attempt."""

        def found(claims: list[TurnClaim]) -> list[tuple[TurnClaim, Claimed]]:
            pairs = [(message, message.claim) for message in claims if isinstance(message.claim, Claimed)]
            return [pair for pair in pairs if pair[0].agent == agent and pair[1].attempt == attempt]

        message, claim = found(await self.claims.until(lambda claims: bool(found(claims)), 30))[0]
        return self.address_of(message), claim

    @staticmethod
    def address_of(message: TurnClaim) -> TurnRef:
        """The address in the log of a claim's turn."""
        return TurnRef(message.team, message.agent, message.turn_id)

    async def story(self, ref: TurnRef, within: float = 30.0) -> list[FeedItem]:
        """All valid messages of a turn, once it has ended. The outcome is the last."""

        async def read() -> list[FeedItem]:
            feed = await self.feeds.resume(ref)
            try:
                return [message async for message in feed]
            finally:
                self.feeds.close(feed)

        return await soon(read(), within)

    async def until[S](self, ref: TurnRef, kind: type[S], within: float = 30.0) -> S:
        """Wait for the first message of a type in a turn."""

        async def look() -> S:
            feed = await self.feeds.resume(ref)
            try:
                async for message in feed:
                    if isinstance(message, kind):
                        return message
            finally:
                self.feeds.close(feed)
            raise AssertionError(f"the turn has ended without {kind.__name__}")

        return await soon(look(), within)

    async def outcome(self, ref: TurnRef, within: float = 30.0) -> TurnOutcome:
        """Wait for the end of a turn."""
        return await self.until(ref, TurnOutcome, within)

    async def queue_is_empty(self) -> None:
        """Wait until no turn waits or runs: a turn leaves the queue a moment after its caller has the answer."""
        while [record async for record in read(self.bus, TURN_QUEUE.name, ">")]:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(_LOOK_AGAIN)

    async def everything_stored(self) -> list[Record]:
        """All data in streams and buckets of the broker."""
        streams: list[str] = (await self.bus.api("STREAM.NAMES", {}))["streams"]
        return [record for stream in streams async for record in read(self.bus, stream, ">")]


@asynccontextmanager
async def following(nats: Access) -> AsyncGenerator[Turns]:
    """Connect to the broker of a stack and watch its claims."""
    async with connect(nats, "cli") as bus, follow_turns(bus) as feeds:
        turns = Turns(bus, feeds)
        async with watch_claims(bus, lambda message, _: turns.claims.add(message)):
            await bus.client.flush()
            yield turns
