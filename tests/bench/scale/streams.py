"""The log and the queue in shards, as docs/adr/0029 proposes them: shard 0 has the names and subjects of today."""

from typing import Any

from tests.bench.scale.turns import prefix

from pallas_bus.transport.connection import Bus
from pallas_bus.transport.streams import make_stream, stream_config
from pallas_contracts.catalog import TURN_LOG, TURN_QUEUE
from pallas_contracts.contract import Stream

CONSUMER = "bench__agent"
LIVE = "pallas.v1.live.turn.>"


def queue_name(shard: int) -> str:
    """The stream of the shard's queue."""
    return _name(TURN_QUEUE, shard)


def log_name(shard: int) -> str:
    """The stream of the shard's log."""
    return _name(TURN_LOG, shard)


def shard_tag(shard: int) -> str:
    """The tag of the brokers that keep a shard."""
    return f"shard:{shard}"


def _name(stream: Stream, shard: int) -> str:
    return f"{stream.name}_{shard}" if shard else stream.name


async def make_shard(bus: Bus, shard: int, replicas: int) -> None:
    """Make the streams of a shard, and the consumer of its queue. All shards republish to the same live subjects."""
    for stream in (TURN_LOG, TURN_QUEUE):
        await make_stream(bus, _name(stream, shard), _config(stream, shard, replicas))
    consumer = {"durable_name": CONSUMER, "name": CONSUMER, "ack_policy": "explicit", "max_ack_pending": -1}
    body = {"stream_name": queue_name(shard), "config": {**consumer, "max_waiting": 4096}}
    await bus.api(f"CONSUMER.CREATE.{queue_name(shard)}.{CONSUMER}", body)


def _config(stream: Stream, shard: int, replicas: int) -> dict[str, Any]:
    config = stream_config(stream, replicas)
    config["name"] = _name(stream, shard)
    config["subjects"] = [subject.replace("pallas.v1", prefix(shard)) for subject in config["subjects"]]
    config["republish"]["src"] = f"{prefix(shard)}.>"
    if replicas > 1:
        config["placement"] = {"tags": [shard_tag(shard)]}
    config["max_msgs_per_subject"] = -1  # one agent has all turns here
    config["discard_new_per_subject"] = False
    return config
