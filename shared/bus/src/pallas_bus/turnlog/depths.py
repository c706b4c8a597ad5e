"""Reads how much the queues and streams of the broker hold, for metrics."""

from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from typing import Any

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.reads import count_by_subject
from pallas_contracts.catalog import TURN_QUEUE, TURN_REQUESTED
from pallas_contracts.contract import Stream
from pallas_contracts.errors import Unavailable


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The number of an agent's turns that wait, and of those that were delivered to a worker."""

    waiting: int
    running: int


@dataclass(frozen=True, slots=True)
class StreamDepth:
    """How much a stream stores."""

    messages: int
    bytes: int


async def queue_depths(bus: Bus) -> dict[tuple[str, str], QueueDepth]:
    """The depth of the queue of each agent that has ever been hosted, by team and agent.

    Raises:
        Unavailable: the broker does not answer.
    """
    found: dict[tuple[str, str], QueueDepth] = {}
    async for consumer in _consumers(bus):
        # Not by its name, in which team and agent cannot be told apart.
        if ids := TURN_REQUESTED.template.parse(consumer["config"].get("filter_subject", "")):
            found[ids["team"], ids["agent"]] = QueueDepth(consumer["num_pending"], consumer["num_ack_pending"])
    return found


async def _consumers(bus: Bus) -> AsyncGenerator[dict[str, Any]]:
    offset, total = 0, 1
    while offset < total:
        page = await bus.api(f"CONSUMER.LIST.{TURN_QUEUE.name}", {"offset": offset})
        consumers: list[dict[str, Any]] = page["consumers"] or []
        for consumer in consumers:
            yield consumer
        offset, total = offset + max(1, len(consumers)), page["total"]


async def queued_turns(bus: Bus) -> dict[tuple[str, str], int]:
    """How many turns of each agent wait or run, by team and agent; also of agents that were never hosted.

    Raises:
        Unavailable: the broker does not answer, or there is no queue yet.
    """
    found: dict[tuple[str, str], int] = {}
    for subject, count in (await count_by_subject(bus, TURN_QUEUE.name, TURN_REQUESTED.template.filter())).items():
        if ids := TURN_REQUESTED.template.parse(subject):
            agent = ids["team"], ids["agent"]
            found[agent] = found.get(agent, 0) + count
    return found


async def stream_depths(bus: Bus, streams: Iterable[Stream]) -> dict[str, StreamDepth]:
    """The depth of each of the streams that exists, by name.

    Raises:
        Unavailable: the broker does not answer.
    """
    found: dict[str, StreamDepth] = {}
    for stream in streams:
        try:
            state = (await bus.api(f"STREAM.INFO.{stream.name}", {}))["state"]
        except Unavailable as error:
            if error.code != "no_stream":
                raise
        else:
            found[stream.name] = StreamDepth(state["messages"], state["bytes"])
    return found
