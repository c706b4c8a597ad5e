"""A feed yields claims and events in their order, whatever the order in which messages arrive."""

import itertools

import pytest
from tests.builders import turn_outcome, turn_requested

from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed, Step, TurnClaim, TurnEvents, TurnOutcome, UnknownEvent
from pallas_turns.claims import TurnRef
from pallas_turns.feed import TurnFeed

REQUEST = turn_requested("t")
THREE = [
    TurnEvents(
        turn_id=REQUEST.turn_id,
        team="t",
        agent="harper",
        attempt=1,
        events=(Step(seq=number, agent="harper", n=number, kind="llm"),),
    )
    for number in (1, 2, 3)
]


def claim(attempt: int) -> bytes:
    claimed = Claimed(attempt=attempt, worker="w1", at=utc_now())
    return TurnClaim(turn_id=REQUEST.turn_id, team="t", agent="harper", claim=claimed).model_dump_json().encode()


async def step_numbers(feed: TurnFeed) -> list[int]:
    return [item.n async for item in feed if isinstance(item, Step)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
async def test_events_are_yielded_in_order_whatever_the_order_of_arrival(order: tuple[int, ...]) -> None:
    feed = TurnFeed(TurnRef.of(REQUEST))
    outcome = ("outcome", turn_outcome(REQUEST, events=3).model_dump_json().encode())
    messages = [*(("event", batch.model_dump_json().encode()) for batch in THREE), outcome]
    for cursor in order:
        feed.on_message(*messages[cursor])
        feed.on_message(*messages[cursor])
    assert await step_numbers(feed) == [1, 2, 3]


async def test_a_feed_gives_up_a_gap_only_as_far_as_the_log_was_read() -> None:
    feed = TurnFeed(TurnRef.of(REQUEST))
    feed.on_message("event", THREE[1].model_dump_json().encode())
    known = feed.known
    assert (feed.waits_for_gap, known) == (True, (1, 2))
    feed.on_message("outcome", turn_outcome(REQUEST, events=3).model_dump_json().encode())
    feed.give_up_gaps(known)
    assert (feed.waits_for_gap, feed.ended) == (True, False)
    feed.give_up_gaps(feed.known)
    assert (feed.ended, await step_numbers(feed)) == (True, [2])


async def test_a_late_claim_is_yielded_before_its_events() -> None:
    feed = TurnFeed(TurnRef.of(REQUEST))
    feed.on_message("event", THREE[0].model_dump_json().encode())
    assert feed.waits_for_gap
    feed.on_message("claim", claim(1))
    feed.on_message("claim", claim(1))
    feed.on_message("event", THREE[1].model_dump_json().encode())
    feed.on_message("outcome", turn_outcome(REQUEST, events=2).model_dump_json().encode())
    assert [type(item) async for item in feed] == [Claimed, Step, Step, TurnOutcome]


async def test_a_feed_does_not_wait_for_a_claim_that_the_log_lacks() -> None:
    feed = TurnFeed(TurnRef.of(REQUEST))
    feed.on_message("event", THREE[0].model_dump_json().encode())
    feed.give_up_gaps(feed.known)
    assert not feed.waits_for_gap
    feed.on_message("claim", claim(1))
    feed.on_message("outcome", turn_outcome(REQUEST, events=1).model_dump_json().encode())
    assert [type(item) async for item in feed] == [Step, TurnOutcome]


async def test_nothing_is_yielded_after_the_outcome() -> None:
    feed = TurnFeed(TurnRef.of(REQUEST))
    feed.on_message("outcome", turn_outcome(REQUEST).model_dump_json().encode())
    feed.on_message("claim", claim(2))
    assert [type(item) async for item in feed] == [TurnOutcome]


async def test_message_kinds_of_a_later_release_are_ignored() -> None:
    feed = TurnFeed(TurnRef.of(REQUEST))
    feed.on_message("something_new", b"{}")
    assert not feed.waits_for_gap


async def test_an_event_of_a_later_release_is_yielded_in_order() -> None:
    feed = TurnFeed(TurnRef.of(REQUEST))
    news = b'{"turn_id":"x","team":"t","agent":"harper","attempt":1,"events":[{"type":"paused","seq":2,"why":"x"}]}'
    for kind, data in (
        ("claim", claim(1)),
        ("event", THREE[2].model_dump_json().encode()),
        ("event", news),
        ("event", THREE[0].model_dump_json().encode()),
        ("outcome", turn_outcome(REQUEST, events=3).model_dump_json().encode()),
    ):
        feed.on_message(kind, data)
    assert [type(item) async for item in feed] == [Claimed, Step, UnknownEvent, Step, TurnOutcome]
