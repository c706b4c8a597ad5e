"""How many agents may be registered, and how large."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.builders import agent_definition

from data_pool.registering.registrations import Quota, Share
from pallas_contracts.agents import ToolDefinition
from pallas_contracts.data_agents import DataAgent
from pallas_contracts.errors import Denied
from pallas_contracts.turns import Principal

NOW = datetime(2026, 11, 23, tzinfo=UTC)


def entry(agent: str, owner: str = "one", **fields: Any) -> DataAgent:
    """A registration."""
    definition = agent_definition("data", agent=agent, **fields)
    principal = Principal(id=owner)
    return DataAgent(agent=agent, owner=principal, definition=definition, connects=True, registered_at=NOW)


def quota(agents: int = 2, mib: float = 1, *, together: int = 3, in_all: float = 1.5) -> Quota:
    """A small quota."""
    return Quota(Share(agents, mib), Share(together, in_all))


LARGE: dict[str, Any] = {"tools": tuple(ToolDefinition(name=f"t{n}", description="x" * 20_000) for n in range(35))}


@pytest.mark.parametrize(
    ("known", "wanted", "reason"),
    [
        ([entry("a")], entry("b"), None),
        ([entry("a"), entry("b")], entry("c"), "You have at most 2 agents"),
        ([entry("a"), entry("b")], entry("b", title="Other"), None),
        ([entry("a"), entry("b")], entry("c", owner="two"), None),
        ([entry("a"), entry("b"), entry("c", owner="two")], entry("d", owner="three"), "All registrars together have"),
        ([entry("a", **LARGE)], entry("b"), None),
        ([entry("a", **LARGE)], entry("b", **LARGE), "You have agents with at most 1 MiB"),
        ([entry("a", **LARGE)], entry("a", title="Other", **LARGE), None),
        ([entry("a", **LARGE), entry("b", "two", **LARGE)], entry("c", "three", **LARGE), "All .* at most 1.5 MiB"),
    ],
)
def test_what_exceeds_the_number_or_the_size_of_one_registrar_or_of_all_is_refused(
    known: list[DataAgent], wanted: DataAgent, reason: str | None
) -> None:
    if reason is None:
        quota().check(wanted, known)
        return
    with pytest.raises(Denied, match=reason) as refused:
        quota().check(wanted, known)
    assert refused.value.code == "too_many_agents"


def test_what_was_stored_a_moment_ago_counts_until_it_is_removed() -> None:
    limited = quota(1)
    limited.stored(entry("a"))
    with pytest.raises(Denied):
        limited.check(entry("b"), [])
    limited.removed("a")
    limited.check(entry("b"), [])
