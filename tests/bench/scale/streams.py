"""The log and the queue, of which one agent has all turns."""

from typing import Any

from pallas_bus.connection import Bus
from pallas_bus.streams import make_stream, stream_config
from pallas_contracts.catalog import TURN_LOG, TURN_QUEUE
from pallas_contracts.contract import Stream

CONSUMER = "bench__agent"
LIVE = "pallas.v1.live.turn.>"
TAG = "log"
"""The tag of the brokers that keep the streams."""


async def make_streams(bus: Bus, replicas: int) -> None:
    """Make both streams, and the consumer of the queue."""
    for stream in (TURN_LOG, TURN_QUEUE):
        await make_stream(bus, stream.name, _config(stream, replicas))
    consumer = {"durable_name": CONSUMER, "name": CONSUMER, "ack_policy": "explicit", "max_ack_pending": -1}
    body = {"stream_name": TURN_QUEUE.name, "config": {**consumer, "max_waiting": 4096}}
    await bus.api(f"CONSUMER.CREATE.{TURN_QUEUE.name}.{CONSUMER}", body)


def _config(stream: Stream, replicas: int) -> dict[str, Any]:
    config = stream_config(stream, replicas)
    if replicas > 1:
        config["placement"] = {"tags": [TAG]}
    config["max_msgs_per_subject"] = -1
    config["discard_new_per_subject"] = False
    return config
