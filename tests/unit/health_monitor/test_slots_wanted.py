"""How many slots the workers of a team need, by which they are scaled."""

from health_monitor.broker.queues import slots_wanted

TEAMS = {"red": {"one": None, "two": 3}, "blue": {"one": None}}
PUBLISHED = {"red.one", "red.two", "blue.one"}


def test_turns_of_all_agents_of_a_team_are_added() -> None:
    turns = {("red", "one"): 5, ("red", "two"): 2, ("blue", "one"): 1}
    assert slots_wanted(turns, TEAMS, PUBLISHED) == {"red": 7, "blue": 1}


def test_an_agent_needs_no_more_slots_than_its_limit() -> None:
    assert slots_wanted({("red", "two"): 10}, TEAMS, PUBLISHED)["red"] == 3


def test_a_team_without_turns_needs_no_slots() -> None:
    assert slots_wanted({}, TEAMS, PUBLISHED) == {"red": 0, "blue": 0}


def test_an_agent_that_nobody_has_published_needs_a_worker_to_publish_it() -> None:
    assert slots_wanted({}, TEAMS, PUBLISHED - {"red.two"}) == {"red": 1, "blue": 0}


def test_turns_of_an_agent_without_a_folder_need_no_worker() -> None:
    assert slots_wanted({("red", "gone"): 4, ("green", "one"): 2}, TEAMS, PUBLISHED) == {"red": 0, "blue": 0}
