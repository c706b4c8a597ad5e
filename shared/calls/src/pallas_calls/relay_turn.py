"""Follow a turn to its end and tell its caller what happens meanwhile."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from opentelemetry import trace

from pallas_bus.turnlog.cursor import Cursor
from pallas_bus.turnlog.feed import TurnFeed
from pallas_calls.model import TurnEnd
from pallas_contracts.turns import CancelRequested, Claimed, Fault, InputRequired, Result, TurnOutcome
from pallas_runtime.telemetry import tracer

QUEUE_PATIENCE = 0.25
QUEUE_INTERVAL = 1.0


class Listener(Protocol):
    """The caller's side of a turn. Telling it may be slow; it never fails."""

    async def begin(self) -> None:
        """The turn is followed from here on."""
        ...

    async def tell(self, said: object, cursor: Cursor, /) -> None:
        """Something happened in the turn; `place` is how far it has come with that."""
        ...

    async def tell_queued(self, ahead: int) -> None:
        """The turn waits behind so many others."""
        ...

    async def tell_again(self, attempt: int) -> None:
        """The worker that had the turn is lost, and another attempt begins: what was told before is void."""
        ...


@tracer.start_as_current_span("relay_turn")
async def relay_turn(
    feed: TurnFeed,
    listener: Listener | None,
    ahead: Callable[[], Awaitable[int | None]],
    taken: Callable[[Claimed], None],
    cancelled: Callable[[], None],
    relayed: Callable[[], None],
) -> TurnEnd:
    """Return how the turn ended. Without a listener only the end matters.

    `ahead()` says how many turns wait in front of this one, or None when that is not known; `taken(claim)` is told of
    every worker that takes the turn, `cancelled()` when it is cancelled before one has, and `relayed()` whenever the
    listener is told of an event.
    """
    said: Result | InputRequired | Fault | None = None
    claimed = asyncio.Event()
    if listener is not None:
        await listener.begin()
    async with _telling_queue(listener, claimed, ahead):
        async for item in feed:
            waited = not claimed.is_set()
            claimed.set()
            match item:
                case Result() | InputRequired() | Fault():
                    said = item
                case TurnOutcome():
                    trace.get_current_span().set_attribute("pallas.outcome", item.code or item.status)
                    return TurnEnd(item, said, feed.cursor)
                case Claimed():
                    said = None
                    taken(item)
                    again = item.attempt > 1 and Cursor(item.attempt) > feed.behind
                    if listener is not None and again and not item.ends:
                        await listener.tell_again(item.attempt)
                case CancelRequested() if waited:
                    cancelled()
                case CancelRequested():
                    pass
                case _ if listener is not None:
                    relayed()
                    await listener.tell(item, feed.cursor)
                case _:
                    pass
    raise AssertionError("a feed ends with an outcome")


@asynccontextmanager
async def _telling_queue(
    listener: Listener | None, claimed: asyncio.Event, ahead: Callable[[], Awaitable[int | None]]
) -> AsyncGenerator[None]:
    if listener is None:
        yield
        return
    told: asyncio.Task[None] | None = None

    async def tell() -> None:
        while not claimed.is_set():
            if (count := await ahead()) is not None and not claimed.is_set():
                await listener.tell_queued(count)
            await asyncio.sleep(QUEUE_INTERVAL)

    def start() -> None:
        nonlocal told
        if not claimed.is_set():
            told = asyncio.create_task(tell())

    timer = asyncio.get_running_loop().call_later(QUEUE_PATIENCE, start)
    try:
        yield
    finally:
        timer.cancel()
        if told is not None:
            told.cancel()
