"""The queue of turns: submits turns, makes consumers, settles deliveries, reads how many turns wait.

Each agent has one durable consumer, shared by all workers that host it. A turn leaves the queue when it is concluded.
"""

import json
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pallas_bus.connection import Bus
from pallas_bus.errors import Stored
from pallas_bus.headers import SYSTEM, trace_headers
from pallas_bus.reads import count_by_subject
from pallas_bus.streams import NANOSECONDS
from pallas_contracts.catalog import TURN_QUEUE, TURN_REQUESTED
from pallas_contracts.contract import Stream
from pallas_contracts.errors import Unavailable
from pallas_contracts.turns import TurnRequested

ACK_WAIT = 10.0
"""Seconds without a progress ack after which the broker delivers a turn again."""


async def submit(bus: Bus, request: TurnRequested) -> Stored:
    """Put a turn into its agent's queue and wait until it is stored.

    Raises:
        Unavailable: the queue is full (`queue_full`) or the broker did not answer in time.
        Rejected: the request is larger than the broker accepts (`too_large`).
    """
    ids = {"team": request.team, "agent": request.agent, "caller": request.principal.token, "turn": request.turn_id}
    subject = TURN_REQUESTED.template.subject(**ids)
    headers = trace_headers({"Nats-Msg-Id": f"{TURN_REQUESTED.name}:{request.turn_id}"})
    return await bus.put(subject, request.model_dump_json().encode(), headers)


def about_queue(request: TurnRequested, operation: Literal["send", "process"]) -> dict[str, str]:
    """The attributes of a span about the turn's message in the queue."""
    names = {"messaging.operation.type": operation, "messaging.operation.name": operation}
    return SYSTEM | {
        **names,
        "messaging.destination.name": TURN_QUEUE.name,
        "messaging.message.id": f"{TURN_REQUESTED.name}:{request.turn_id}",
        "messaging.consumer.group.name": consumer_name(request.team, request.agent),
    }


def consumer_name(team: str, agent: str) -> str:
    """The name of an agent's durable consumer."""
    return f"{team}__{agent}"


async def ensure_consumer(bus: Bus, team: str, agent: str, *, max_concurrency: int | None) -> None:
    """Create or update the durable consumer of an agent.

    `max_concurrency` limits its running turns on all workers.

    Raises:
        Unavailable: the broker does not answer.
    """
    name = consumer_name(team, agent)
    config = {
        "durable_name": name,
        "name": name,
        "ack_policy": "explicit",
        "ack_wait": int(ACK_WAIT * NANOSECONDS),
        "deliver_policy": "all",
        "replay_policy": "instant",
        "max_deliver": -1,
        "max_ack_pending": max_concurrency or -1,
        "max_waiting": 512,
        "filter_subject": TURN_REQUESTED.template.filter(team=team, agent=agent),
    }
    await make_consumer(bus, TURN_QUEUE, config)


async def make_consumer(bus: Bus, stream: Stream, config: dict[str, Any]) -> dict[str, Any]:
    """Create or update a consumer. The request's subject has its name and filter, so permissions cover them."""
    subject = f"CONSUMER.CREATE.{stream.name}.{config['name']}.{config['filter_subject']}"
    return await bus.api(subject, {"stream_name": stream.name, "config": config})


async def delete_consumer(bus: Bus, team: str, agent: str) -> None:
    """Remove an agent's consumer.

    Raises:
        Unavailable: there is none, or the broker does not answer.
    """
    await bus.api(f"CONSUMER.DELETE.{TURN_QUEUE.name}.{consumer_name(team, agent)}", {})


async def delete_consumers(bus: Bus, agents: Collection[tuple[str, str]]) -> None:
    """Remove the consumers of these agents (team, agent), where there are any."""
    for team, agent in agents:
        with suppress(Unavailable):  # an agent that never had a worker has none
            await delete_consumer(bus, team, agent)


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """A queue message that was delivered to this worker. Exactly one of `ack`, `nak` and `reject` ends it.

    `delivered` counts the deliveries of the message; a delivery that was nak'ed before a claim is not an attempt.
    `waiting` is how many messages were left for the consumer. `position` is the message's position in the queue's
    stream, `stored_at` when it was stored. A delivery equals only itself.
    """

    bus: Bus
    data: bytes
    headers: dict[str, str]
    reply: str
    delivered: int
    waiting: int
    subject: str
    position: int
    stored_at: datetime

    async def ack(self) -> None:
        """End the delivery: the turn is concluded, and its message is removed from the queue."""
        await self.bus.send(self.reply, b"+ACK")

    async def nak(self, delay: float = 0.0) -> None:
        """End the delivery: the broker delivers the message again, after `delay` seconds."""
        body = json.dumps({"delay": int(delay * NANOSECONDS)}) if delay else ""
        await self.bus.send(self.reply, f"-NAK {body}".strip().encode())

    async def reject(self) -> None:
        """End the delivery: the message can never be handled, and is removed from the queue."""
        await self.bus.send(self.reply, b"+TERM")

    async def working(self) -> None:
        """Send a progress ack: for `ACK_WAIT` seconds the broker does not deliver the message again."""
        await self.bus.send(self.reply, b"+WPI")


def deliveries_of(delivery: str) -> int:
    """How often a message was delivered, with the delivery that has this reply subject."""
    return int(delivery.split(".")[-5])


async def nak(bus: Bus, delivery: str) -> None:
    """Nak a delivery on behalf of a lost worker; `delivery` is the reply subject that the worker's claim names.

    Raises:
        Unavailable: the connection is closed.
    """
    await bus.send(delivery, b"-NAK")


@dataclass(frozen=True, slots=True)
class QueueState:
    """One agent's queue: how many turns wait and run, how many deliveries there were, and the last one's position."""

    waiting: int
    delivered: int
    delivered_position: int
    running: int


async def queue_state(bus: Bus, team: str, agent: str) -> QueueState:
    """Read the state of an agent's queue.

    Raises:
        Unavailable: the agent has no consumer yet, or the broker does not answer.
    """
    info = await bus.api(f"CONSUMER.INFO.{TURN_QUEUE.name}.{consumer_name(team, agent)}", {})
    delivered = info["delivered"]
    return QueueState(info["num_pending"], delivered["consumer_seq"], delivered["stream_seq"], info["num_ack_pending"])


async def turns_by_caller(bus: Bus, team: str, agent: str) -> dict[str, int]:
    """How many turns each caller has in an agent's queue, waiting or running, by its principal's token.

    Raises:
        Unavailable: the broker does not answer.
    """
    subject = TURN_REQUESTED.template.filter(team=team, agent=agent)
    counts = await count_by_subject(bus, TURN_QUEUE.name, subject)
    return Counter(subject.split(".")[-2] for subject in counts)


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
