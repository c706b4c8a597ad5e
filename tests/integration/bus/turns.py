"""Short forms for tests of a turn's log: attempts, their events, and the messages of a feed."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests.waiting import soon

from pallas_bus.connection import Bus
from pallas_bus.reads import Record, read
from pallas_contracts.catalog import TURN_LOG
from pallas_contracts.contract import Stream
from pallas_contracts.message import utc_now
from pallas_contracts.turns import (
    CancelRequested,
    Claimed,
    Result,
    Step,
    TextDelta,
    ToolStarted,
    TurnEvents,
    TurnOutcome,
    TurnRequested,
)
from pallas_turns.claims import TurnRef, claim, claim_state
from pallas_turns.feed import FeedItem, TurnFeed
from pallas_turns.feeds import TurnFeeds, follow_turns
from pallas_turns.write import TurnWriter

TOOL = ToolStarted(call="1", server="demo", tool="add")


def step(number: int) -> Step:
    return Step(agent="harper", n=number, kind="llm")


def text(words: str) -> TextDelta:
    return TextDelta(agent="harper", text=words)


def result(words: str) -> Result:
    return Result(content=({"type": "text", "text": words},))


async def attempt_of(bus: Bus, request: TurnRequested, number: int = 1, *, after: int = 0) -> TurnWriter:
    """Claim the turn. Returns the writer of that claim."""
    ref = TurnRef.of(request)
    fence = await claim(bus, ref, Claimed(attempt=number, worker=f"w{number}", at=utc_now()), after=after)
    return TurnWriter(bus, ref, number, fence)


async def writer_of_the_cancel(writer: TurnWriter) -> TurnWriter:
    """The writer that ends a cancelled turn: its fence is the cancel, which superseded the claim."""
    state = await claim_state(writer.bus, writer.ref)
    return TurnWriter(writer.bus, writer.ref, writer.attempt, state.seq)


async def lifetimes(bus: Bus, stream: Stream, subject: str) -> list[int | None]:
    """The TTL of each message on the subject in seconds, or None."""
    found: list[int | None] = []
    async for record in read(bus, stream.name, subject):
        ask = f'{{"seq": {record.seq}}}'.encode()
        headers = (await bus.request(f"$JS.API.DIRECT.GET.{stream.name}", ask)).headers or {}
        found.append(int(headers["Nats-TTL"].removesuffix("s")) if "Nats-TTL" in headers else None)
    return found


async def stored(bus: Bus, ref: TurnRef) -> list[Record]:
    return [record async for record in read(bus, TURN_LOG.name, ref.everything)]


async def numbers(bus: Bus, ref: TurnRef) -> list[int]:
    """The numbers of all events that are stored."""
    kinds = (f"pallas.v1.turn.{kind}.{ref.team}.{ref.agent}.{ref.turn_id}" for kind in ("event", "content"))
    records = [record for kind in kinds async for record in read(bus, TURN_LOG.name, kind)]
    return sorted(event.seq for record in records for event in TurnEvents.model_validate_json(record.data).events)


async def read_to_end(feed: TurnFeed) -> list[FeedItem]:
    """All messages of a feed, to its end."""

    async def read_it() -> list[FeedItem]:
        return [messages async for messages in feed]

    return await soon(read_it())


def summary_of(messages: list[FeedItem]) -> list[str]:
    """One short text for each message, which tests compare."""
    return [_word(each) for each in messages]


def _word(messages: FeedItem) -> str:
    match messages:
        case Claimed(attempt=attempt):
            return f"claimed {attempt}"
        case TurnOutcome(status=status):
            return status
        case Step(n=number):
            return f"step {number}"
        case TextDelta(text=words):
            return words
        case CancelRequested(reason=reason):
            return f"cancelled: {reason}"
        case _:
            return messages.type


@asynccontextmanager
async def following(bus: Bus, *, alone: bool = False) -> AsyncGenerator[TurnFeeds]:
    async with follow_turns(bus, alone=alone) as feeds:
        await bus.client.flush()
        yield feeds
