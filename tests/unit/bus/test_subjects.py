"""Subject filters, and where recorded messages may be published again."""

import pytest

from pallas_bus.headers import overlap, subject_filter
from pallas_contracts.catalog import STREAMS, TURN_OBJECTS
from pallas_contracts.errors import Rejected
from pallas_turns.history.replays import Target, streams_of

MESSAGES = tuple(stream for stream in STREAMS if stream is not TURN_OBJECTS)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a.b", "a.b.c", False),
        ("a.*", "*.b", True),
        ("a.*.c", "a.b.d", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
        ("a.b.>", "a.*.c", True),
        ("a.b.>", "b.>", False),
    ],
)
def test_two_filters_overlap_when_a_subject_can_match_both(one: str, other: str, expected: bool) -> None:
    assert overlap(one, other) is expected
    assert overlap(other, one) is expected


def test_the_common_prefix_may_be_left_out_of_a_filter() -> None:
    assert subject_filter("turn.outcome.>") == subject_filter("pallas.v1.turn.outcome.>") == "pallas.v1.turn.outcome.>"


@pytest.mark.parametrize("text", ["", "turn..x", "turn.>.x", "turn.a*", "turn x"])
def test_an_invalid_filter_is_refused(text: str) -> None:
    with pytest.raises(Rejected, match="is not a subject"):
        subject_filter(text)


def test_only_the_streams_that_may_hold_a_subject_are_read() -> None:
    assert [stream.name for stream in streams_of("pallas.v1.turn.requested.red.>")] == ["TURN_QUEUE"]
    assert streams_of("pallas.v1.>") == MESSAGES
    assert streams_of("pallas.v1.nothing.>") == ()


def test_every_stream_of_messages_is_republished_live() -> None:
    assert [stream.name for stream in MESSAGES if stream.live is None] == []


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("pallas.v1.replayed.>", "pallas.v1.replayed.turn.outcome.red.harper.t1"),
        ("dashboard.>", "dashboard.turn.outcome.red.harper.t1"),
        ("dashboard.outcomes", "dashboard.outcomes"),
    ],
)
def test_a_replay_target_is_a_subject_or_a_prefix(target: str, expected: str) -> None:
    assert Target.parse(target).subject("pallas.v1.turn.outcome.red.harper.t1") == expected


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("pallas.v1.turn.outcome.red.harper.t1", "as if it had happened again"),
        ("pallas.v1.>", "as if it had happened again"),
        ("pallas.>", "as if it had happened again"),
        ("pallas.v1.kept.>", "as if it had happened again"),
        ("$KV.agents.>", "such subjects are reserved"),
        ("$JS.API.STREAM.PURGE.TURN_LOG", "such subjects are reserved"),
        ("_INBOX.x", "such subjects are reserved"),
        ("pallas.v1.live.>", "Pallas subscribes there"),
        ("pallas.v1.worker.alive.w1", "Pallas subscribes there"),
        (">", "must be one subject"),
        ("a.*", "must be one subject"),
        ("a.>.b", "must be one subject"),
        ("a..b", "is empty"),
        ("a b", "has a space"),
    ],
)
def test_a_replay_target_that_is_stored_reserved_or_invalid_is_refused(target: str, reason: str) -> None:
    with pytest.raises(Rejected, match=reason):
        Target.parse(target)
