"""Which resources of the fleet a change concerns."""

from dataclasses import replace

import pytest
from tests.unit.fleet.seen import a_task, a_workspace, an_entry

from fleet.seeing.fleet import Announcing, Seen

AGENTS, PAPI = "fleet://agents", "fleet://agents/papi"
TASK, OTHER = (f"fleet://tasks/{digit * 8}-0000-0000-0000-000000000000" for digit in "01")


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def announcing(told: list[str]) -> Announcing:
    return Announcing(told.append)


def seen(name: str = "papi") -> Seen:
    return Seen(name, a_workspace(name), None, "idle", "", None)


def test_a_task_that_begins_or_ends_changes_itself_its_agent_and_the_list(
    announcing: Announcing, told: list[str]
) -> None:
    announcing.changed("papi", an_entry())
    assert set(told) == {PAPI, AGENTS}
    for entry in (an_entry(a_task("pending")), an_entry(a_task()), an_entry()):
        told.clear()
        announcing.changed("papi", entry)
        assert set(told) == {PAPI, AGENTS, TASK}


def test_of_two_tasks_that_follow_each_other_both_have_changed(announcing: Announcing, told: list[str]) -> None:
    announcing.changed("papi", an_entry(a_task()))
    told.clear()
    announcing.changed("papi", an_entry(a_task(turn_id="1" * 8 + "0" * 24)))
    assert set(told) == {PAPI, AGENTS, TASK, OTHER}
    told.clear()
    announcing.changed("papi", None)
    assert set(told) == {PAPI, AGENTS, OTHER}


def test_what_an_agent_writes_changes_its_task_only(announcing: Announcing, told: list[str]) -> None:
    announcing.task("0" * 32)
    assert told == [TASK]


def test_only_agents_that_look_different_have_changed(announcing: Announcing, told: list[str]) -> None:
    announcing.seen((seen(), seen("sony")))
    announcing.seen((seen(), seen("sony")))
    assert told == []
    announcing.seen((replace(seen(), status="busy"), seen("sony")))
    assert told == [PAPI, AGENTS]
    told.clear()
    announcing.seen((replace(seen(), status="busy"),))
    assert told == ["fleet://agents/sony", AGENTS]
