"""The order in which a feed says what it hears, whatever the order in which it hears it."""

import itertools

import pytest
from tests.builders import turn_outcome, turn_requested

from pallas_bus.turnlog.feed import TurnFeed
from pallas_bus.turnlog.ref import TurnRef
from pallas_contracts.message import utc_now
from pallas_contracts.turns import Claimed, Step, TurnClaim, TurnEvents, TurnOutcome, UnknownEvent

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
    said = Claimed(attempt=attempt, worker="w1", at=utc_now())
    return TurnClaim(turn_id=REQUEST.turn_id, team="t", agent="harper", claim=said).model_dump_json().encode()


async def numbers(feed: TurnFeed) -> list[int]:
    return [said.n async for said in feed if isinstance(said, Step)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
async def test_any_order_of_arrival_gives_the_order_of_the_numbers(order: tuple[int, ...]) -> None:
    feed = TurnFeed(TurnRef.of(REQUEST))
    outcome = ("outcome", turn_outcome(REQUEST, events=3).model_dump_json().encode())
    messages = [*(("event", batch.model_dump_json().encode()) for batch in THREE), outcome]
    for cursor in order:
        feed.hear(*messages[cursor])
        feed.hear(*messages[cursor])
    assert await numbers(feed) == [1, 2, 3]


async def test_a_gap_is_waited_for_and_given_up_only_as_far_as_the_log_was_read() -> None:
    feed = TurnFeed(TurnRef.of(REQUEST))
    feed.hear("event", THREE[1].model_dump_json().encode())
    known = feed.known
    assert (feed.waits_for_gap, known) == (True, (1, 2))
    feed.hear("outcome", turn_outcome(REQUEST, events=3).model_dump_json().encode())
    feed.give_up_gaps(known)
    assert (feed.waits_for_gap, feed.ended) == (True, False)
    feed.give_up_gaps(feed.known)
    assert (feed.ended, await numbers(feed)) == (True, [2])


async def test_a_claim_that_is_heard_late_is_told_before_its_events() -> None:
    feed = TurnFeed(TurnRef.of(REQUEST))
    feed.hear("event", THREE[0].model_dump_json().encode())
    assert feed.waits_for_gap
    feed.hear("claim", claim(1))
    feed.hear("claim", claim(1))
    feed.hear("event", THREE[1].model_dump_json().encode())
    feed.hear("outcome", turn_outcome(REQUEST, events=2).model_dump_json().encode())
    assert [type(said) async for said in feed] == [Claimed, Step, Step, TurnOutcome]


async def test_a_claim_that_is_not_in_the_log_is_not_waited_for() -> None:
    feed = TurnFeed(TurnRef.of(REQUEST))
    feed.hear("event", THREE[0].model_dump_json().encode())
    feed.give_up_gaps(feed.known)
    assert not feed.waits_for_gap
    feed.hear("claim", claim(1))
    feed.hear("outcome", turn_outcome(REQUEST, events=1).model_dump_json().encode())
    assert [type(said) async for said in feed] == [Step, TurnOutcome]


async def test_nothing_is_told_behind_the_outcome() -> None:
    feed = TurnFeed(TurnRef.of(REQUEST))
    feed.hear("outcome", turn_outcome(REQUEST).model_dump_json().encode())
    feed.hear("claim", claim(2))
    assert [type(said) async for said in feed] == [TurnOutcome]


async def test_kinds_of_a_later_release_are_passed_over() -> None:
    feed = TurnFeed(TurnRef.of(REQUEST))
    feed.hear("something_new", b"{}")
    assert not feed.waits_for_gap


async def test_an_event_of_a_later_release_is_told_in_its_order() -> None:
    feed = TurnFeed(TurnRef.of(REQUEST))
    news = b'{"turn_id":"x","team":"t","agent":"harper","attempt":1,"events":[{"type":"paused","seq":2,"why":"x"}]}'
    for kind, data in (
        ("claim", claim(1)),
        ("event", THREE[2].model_dump_json().encode()),
        ("event", news),
        ("event", THREE[0].model_dump_json().encode()),
        ("outcome", turn_outcome(REQUEST, events=3).model_dump_json().encode()),
    ):
        feed.hear(kind, data)
    assert [type(said) async for said in feed] == [Claimed, Step, UnknownEvent, Step, TurnOutcome]
