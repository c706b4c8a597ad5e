"""The bootstrap of a service that executes turns: its connection, what it declares, its agents and its presence."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from pallas_bus.access import Access
from pallas_bus.connection import Bus, connect_when_possible
from pallas_bus.errors import Poll, poll_now, polling
from pallas_bus.streams import declare, stream_name
from pallas_contracts.catalog import AGENTS, DEAD_LETTERS, HOLDS, TURN_LOG, TURN_QUEUE, WORKERS
from pallas_contracts.contract import Bucket, Stream
from pallas_runtime.process import Process
from pallas_runtime.settings import Settings
from pallas_turns.definitions import publish_definition
from pallas_turns.executor import Executor, Troubles
from pallas_turns.runtime import HostedAgent

_PUBLISH_EVERY = 60.0

_USED = (AGENTS, WORKERS, HOLDS, TURN_QUEUE, TURN_LOG, DEAD_LETTERS)


@asynccontextmanager
async def connect_service(
    settings: Settings, process: Process, service: str, *others: Bucket[Any] | Stream
) -> AsyncGenerator[Bus]:
    """A connection as the user `service`. All that it uses is declared: `others`, and what every executor uses."""
    connecting = connect_when_possible(Access.of(settings), service, instance=process.instance)
    async with connecting as bus, process.uses(bus):
        await declare(bus, *others, *_USED, replicas=settings.stream_replicas)
        yield bus


@asynccontextmanager
async def offer_agents(
    executor: Executor, process: Process, *, publish: Sequence[Poll], troubles: Troubles
) -> AsyncGenerator[None]:
    """Publish definitions now, once a minute and when the catalogue was lost, and this executor's presence."""
    bus = executor.bus
    async with AsyncExitStack() as stack:
        for poll in publish:
            bus.spawn(poll_now(poll))
            publish_again(bus, poll)
            await stack.enter_async_context(polling(bus, poll, _PUBLISH_EVERY))
        await stack.enter_async_context(process.running(executor.send_presence(troubles), "presence"))
        yield


def publish_again(bus: Bus, publish: Poll) -> None:
    """Publish definitions again whenever the catalogue, or the whole broker, may have been lost."""
    bus.on_reconnect(publish)
    bus.on_made_again(stream_name(AGENTS), publish)


def publications(bus: Bus, hosted: Sequence[HostedAgent]) -> list[Poll]:
    """Publishes the definition of each of these agents."""
    return [partial(publish_definition, bus, each.definition) for each in hosted]
