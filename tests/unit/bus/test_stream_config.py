"""The JetStream configuration of the catalogue's streams and buckets."""

from dataclasses import replace

from pallas_bus.streams import bucket_config, live_subject, stream_config, within
from pallas_contracts.catalog import BUCKETS, CALLS, STREAMS, TURN_LOG, TURN_QUEUE, WORKERS

NANOSECONDS = 1_000_000_000


def test_a_full_queue_refuses_turns_and_keeps_each_until_it_is_settled() -> None:
    config = stream_config(TURN_QUEUE, 1)
    assert (config["retention"], config["discard"], config["discard_new_per_subject"]) == ("workqueue", "new", True)
    assert config["max_msgs_per_subject"] == TURN_QUEUE.max_per_subject


def test_the_log_is_republished_to_the_live_subjects() -> None:
    config = stream_config(TURN_LOG, 3)
    source, target = config["republish"]["src"], config["republish"]["dest"]
    stored = "pallas.v1.turn.event.t.a.x"
    assert target.replace(">", stored.removeprefix(source.removesuffix(">"))) == live_subject(stored)
    assert config["num_replicas"] == 3


def test_presence_expires_at_the_broker_after_six_seconds() -> None:
    assert bucket_config(WORKERS, 1)["max_age"] == 6 * NANOSECONDS


def test_streams_and_buckets_are_on_disk_and_allow_direct_reads() -> None:
    configs = [stream_config(stream, 1) for stream in STREAMS] + [bucket_config(bucket, 1) for bucket in BUCKETS]
    assert {(config["storage"], config["allow_direct"]) for config in configs} == {("file", True)}


def test_a_stream_allows_a_consumer_for_each_of_100_000_agents() -> None:
    assert {stream_config(stream, 1)["max_consumers"] for stream in STREAMS} == {100_000}


def test_a_bucket_takes_a_part_of_a_small_store_and_of_a_large_one_no_more_than_its_limit() -> None:
    assert within(2**30, CALLS) == replace(CALLS, most_bytes=2**25)
    assert within(2**35, CALLS) == CALLS
    assert [within(2**20, thing) for thing in (WORKERS, TURN_LOG)] == [WORKERS, TURN_LOG]
