"""Watches all turns: requests, claims and outcomes as they are stored. What is missed is not read again."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from nats.aio.msg import Msg

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import Record, record_of
from pallas_bus.transport.streams import LIVE_PREFIX, live_subject
from pallas_contracts.catalog import TURN_CLAIM, TURN_OUTCOME, TURN_QUEUE, TURN_REQUESTED


@asynccontextmanager
async def watch_turns(
    bus: Bus, on_record: Callable[[Record], None], on_lost: Callable[[], None]
) -> AsyncGenerator[None]:
    """Call `on_record` for every request, claim (or cancel) and outcome inside the block.

    `on_lost` is called when the connection was lost and is back: messages may be missing.

    Raises:
        Unavailable: the connection is closed.
    """

    def arrived(message: Msg) -> None:
        on_record(record_of(message))

    async def reconnected() -> None:
        on_lost()

    async with AsyncExitStack() as stack:
        for contract in (TURN_REQUESTED, TURN_CLAIM, TURN_OUTCOME):
            prefix = TURN_QUEUE.live if contract is TURN_REQUESTED else LIVE_PREFIX
            subscription = await bus.listen(live_subject(contract.template.filter(), prefix or LIVE_PREFIX), arrived)
            stack.push_async_callback(bus.unsubscribe, subscription)
        stack.callback(bus.on_reconnect(reconnected))
        await bus.flush()
        yield
