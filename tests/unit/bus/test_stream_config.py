"""What the catalogue says of streams and buckets, as JetStream takes it."""

from pallas_bus.transport.streams import bucket_config, live_subject, stream_config
from pallas_contracts.catalog import BUCKETS, STREAMS, TURN_LOG, TURN_QUEUE, WORKERS

NANOSECONDS = 1_000_000_000


def test_the_queue_refuses_what_does_not_fit_and_keeps_a_turn_until_it_is_settled() -> None:
    config = stream_config(TURN_QUEUE, 1)
    assert (config["retention"], config["discard"], config["discard_new_per_subject"]) == ("workqueue", "new", True)
    assert config["max_msgs_per_subject"] == TURN_QUEUE.max_per_subject


def test_the_log_is_heard_live_where_readers_listen() -> None:
    config = stream_config(TURN_LOG, 3)
    source, target = config["republish"]["src"], config["republish"]["dest"]
    stored = "pallas.v1.turn.event.t.a.x"
    assert target.replace(">", stored.removeprefix(source.removesuffix(">"))) == live_subject(stored)
    assert config["num_replicas"] == 3


def test_presence_expires_at_the_broker_too() -> None:
    assert bucket_config(WORKERS, 1)["max_age"] == 6 * NANOSECONDS


def test_everything_is_on_disk_and_can_be_read_directly() -> None:
    configs = [stream_config(stream, 1) for stream in STREAMS] + [bucket_config(bucket, 1) for bucket in BUCKETS]
    assert {(config["storage"], config["allow_direct"]) for config in configs} == {("file", True)}


def test_a_stream_takes_a_consumer_for_each_of_very_many_agents() -> None:
    assert {stream_config(stream, 1)["max_consumers"] for stream in STREAMS} == {100_000}
