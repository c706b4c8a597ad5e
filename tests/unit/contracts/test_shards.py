"""Names, subjects and messages of the shards of the log."""

import pytest
from tests.builders import turn_requested

from pallas_bus.rights import rights_of
from pallas_bus.transport.streams import live_subject, stream_config
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.catalog import (
    BUCKETS,
    SHARDS,
    SPEAKERS,
    STREAMS,
    TURN_CLAIM,
    TURN_LOG,
    TURN_QUEUE,
    TURN_REQUESTED,
    WORKER,
)
from pallas_contracts.shards import buckets_in, shard_of, stream_in, streams_in, template_in
from pallas_contracts.turns import TurnRequested


def test_shard_0_has_the_names_and_subjects_of_the_catalogue() -> None:
    assert streams_in(STREAMS, 1) == STREAMS
    assert buckets_in(BUCKETS, SHARDS, 1) == BUCKETS
    assert template_in(TURN_CLAIM.template, 0) is TURN_CLAIM.template
    ref = TurnRef.of(turn_requested("kottos"))
    assert (ref.log, ref.queue, shard_of(ref.everything)) == ("TURN_LOG", "TURN_QUEUE", 0)


def test_a_message_of_shard_0_does_not_name_it() -> None:
    request = turn_requested("kottos")
    assert "shard" not in request.model_dump_json()
    assert TurnRequested.model_validate_json(request.model_dump_json()).shard == 0
    moved = request.model_copy(update={"shard": 3})
    assert TurnRequested.model_validate_json(moved.model_dump_json()).shard == 3


def test_a_turn_of_another_shard_has_streams_and_subjects_of_its_own() -> None:
    ref = TurnRef("kottos", "harper", "t1", 2)
    assert (ref.log, ref.queue) == ("TURN_LOG_2", "TURN_QUEUE_2")
    assert ref.on(TURN_CLAIM.template) == "pallas.s2.turn.claim.kottos.harper.t1"
    assert ref == TurnRef("kottos", "harper", "t1")


def test_subjects_of_every_shard_are_parsed_and_republished_alike() -> None:
    subject = template_in(TURN_REQUESTED.template, 12).subject(team="a", agent="b", caller="c")
    assert TURN_REQUESTED.template.parse(subject) == {"team": "a", "agent": "b", "caller": "c"}
    assert shard_of(subject) == 12
    assert live_subject(subject) == live_subject(TURN_REQUESTED.template.subject(team="a", agent="b", caller="c"))
    config = stream_config(stream_in(TURN_LOG, 12), 1)
    assert config["republish"] == {"src": "pallas.s12.>", "dest": "pallas.v1.live.>"}


@pytest.mark.parametrize("service", SPEAKERS)
def test_rights_in_a_second_shard_are_those_of_the_first(service: str) -> None:
    """But for the table of teams, and that executors put turns into queues."""
    hosted = {"alpha": ["x"]} if service == WORKER else None
    one, two = rights_of(service, hosted), rights_of(service, hosted, shards=2)
    assert set(one.publish) <= set(two.publish)
    assert set(one.subscribe) <= set(two.subscribe)
    named = {each for each in one.publish if TURN_QUEUE.name in each or TURN_LOG.name in each}
    named -= {"$JS.API.CONSUMER.DELETE.TURN_QUEUE.*"}  # the data agents stay in shard 0
    assert {_second(each) for each in named} <= set(two.publish)


def _second(right: str) -> str:
    tokens = [f"{each}_1" if each in ("TURN_QUEUE", "TURN_LOG") else each for each in right.split(".")]
    return ".".join(tokens).replace("pallas.v1.", "pallas.s1.")
