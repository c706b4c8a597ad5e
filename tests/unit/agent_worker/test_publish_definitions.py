"""Which version is newer, and when a definition is a different one."""

from datetime import timedelta
from itertools import pairwise

import pytest
from tests.builders import agent_definition

from pallas_contracts.agents import ToolDefinition
from pallas_contracts.message import utc_now
from pallas_turns.definitions import revision_of, version_key

RISING = ("0.0.0", "0.0.9", "0.0.10", "0.2.0-rc.1", "0.2.0", "1.0.0-beta", "1.0.0", "1.0.1", "10.0.0")


@pytest.mark.parametrize(("older", "newer"), list(pairwise(RISING)))
def test_versions_are_compared_by_their_numbers_and_a_release_follows_its_pre_releases(older: str, newer: str) -> None:
    assert version_key(older) < version_key(newer)


def test_builds_of_one_version_are_equal() -> None:
    assert version_key("1.2.3+build.5") == version_key("1.2.3")


def test_a_revision_does_not_depend_on_when_it_is_made() -> None:
    definition = agent_definition("demo")
    later = definition.model_copy(update={"updated_at": utc_now() + timedelta(days=1), "revision": "x"})
    assert revision_of(definition) == revision_of(later)


@pytest.mark.parametrize("change", [{"title": "Other"}, {"version": "2"}, {"tools": (ToolDefinition(name="x"),)}])
def test_a_revision_changes_with_the_content_of_the_definition(change: dict[str, object]) -> None:
    definition = agent_definition("demo")
    assert revision_of(definition) != revision_of(definition.model_copy(update=change))
