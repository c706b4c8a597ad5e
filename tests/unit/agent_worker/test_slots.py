"""The slots of a worker."""

from pallas_turns.pull import Slots


def test_a_worker_takes_as_many_turns_as_it_has_slots() -> None:
    slots = Slots(3)
    assert [slots.take(agent) for agent in ("a", "b", "c", "d")] == [True, True, True, False]
    assert slots.busy == 3


def test_one_slot_is_reserved_for_agents_without_a_running_turn() -> None:
    slots = Slots(3, lambda: 2)
    assert [slots.take("noisy") for _ in range(4)] == [True, True, False, False]
    assert (slots.room("noisy"), slots.room("quiet")) == (0, 1)
    assert slots.take("quiet")
    assert slots.room("third") == 0


def test_a_worker_with_one_slot_reserves_none() -> None:
    slots = Slots(1)
    assert slots.take("a")
    assert not slots.take("b")


def test_a_worker_with_one_agent_reserves_none() -> None:
    slots = Slots(2)
    assert [slots.take("only") for _ in range(3)] == [True, True, False]


def test_a_slot_that_is_freed_can_be_taken_again() -> None:
    slots = Slots(2, lambda: 2)
    assert slots.take("a")
    assert slots.room("a") == 0
    slots.give("a")
    assert (slots.busy, slots.room("a")) == (0, 2)


def test_giving_back_a_slot_that_was_not_taken_makes_no_room() -> None:
    slots = Slots(2)
    slots.give("a")
    assert (slots.busy, slots.room("a"), slots.room("b")) == (0, 2, 2)
