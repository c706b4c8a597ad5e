"""Metrics that several services share: the series of each agent, and counts of turns that ended."""

from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry, Counter

from pallas_contracts.turns import TurnOutcome
from pallas_runtime.metrics import AGENT, MOST_AT_ZERO, AgentSeries, EndedTurns, auth_failures

NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def ended(seconds: float = 1.0) -> TurnOutcome:
    """A turn of `t.a` that failed after so many seconds."""
    return TurnOutcome(
        turn_id="1",
        team="t",
        agent="a",
        attempt=1,
        status="failed",
        code="model_failed",
        requested_at=NOW,
        ended_at=NOW + timedelta(seconds=seconds),
    )


def series(registry: CollectorRegistry) -> dict[str, float]:
    """The counters of the agent `a`, by their last label."""
    samples = [sample for metric in registry.collect() for sample in metric.samples if sample.name.endswith("_total")]
    return {list(sample.labels.values())[-1]: sample.value for sample in samples if sample.labels["agent"] == "a"}


def test_the_series_of_an_agent_begin_at_0_and_end_with_it(registry: CollectorRegistry) -> None:
    agents = AgentSeries()
    agents.keep(Counter("c", "c", [*AGENT, "kind"], registry=registry), "one", "two")
    assert series(registry) == {}
    agents.changed("t.a", "a definition")
    agents.changed("t.b", "a definition")
    agents.changed("t.a", "another one")
    assert series(registry) == {"one": 0.0, "two": 0.0}
    agents.changed("t.a", None)
    assert series(registry) == {}
    assert registry.get_sample_value("c_total", {"team": "t", "agent": "b", "kind": "one"}) == 0.0


def test_with_many_agents_the_series_of_the_others_begin_at_0_when_one_of_them_is_used(
    registry: CollectorRegistry,
) -> None:
    agents = AgentSeries()
    kept = agents.keep(Counter("c", "c", [*AGENT, "kind"], registry=registry), "one", "two")
    for number in range(MOST_AT_ZERO):
        agents.changed(f"t.{number}", "a definition")
    agents.changed("t.a", "a definition")
    agents.changed("t.b", "a definition")
    assert series(registry) == {}
    kept.count("t", "a", "one")
    assert series(registry) == {"one": 1.0, "two": 0.0}
    assert registry.get_sample_value("c_total", {"team": "t", "agent": "b", "kind": "one"}) is None
    agents.changed("t.b", None)
    assert kept.of("t", "b", "one") is None


def test_a_turn_is_counted_by_its_outcome_and_the_code_of_its_failure(registry: CollectorRegistry) -> None:
    agents = AgentSeries()
    turns = EndedTurns(registry, agents)
    agents.changed("t.a", "a definition")
    turns.ended(ended())
    counted = {name: value for name, value in series(registry).items() if value}
    assert counted == {"failed": 1.0, "model_failed": 1.0}
    assert registry.get_sample_value("pallas_turn_duration_seconds_sum", {"team": "t", "agent": "a"}) == 1.0


def test_a_turn_of_a_removed_agent_makes_no_series(registry: CollectorRegistry) -> None:
    agents = AgentSeries()
    turns = EndedTurns(registry, agents)
    agents.changed("t.a", "a definition")
    agents.changed("t.a", None)
    turns.ended(ended())
    assert series(registry) == {}


def test_clocks_that_differ_make_no_duration_negative(registry: CollectorRegistry) -> None:
    agents = AgentSeries()
    turns = EndedTurns(registry, agents)
    agents.changed("t.a", "a definition")
    turns.ended(ended(-3.0))
    assert registry.get_sample_value("pallas_turn_duration_seconds_sum", {"team": "t", "agent": "a"}) == 0.0


def test_every_reason_of_auth_failures_begins_at_0(registry: CollectorRegistry) -> None:
    auth_failures(registry, ("missing", "expired"))
    assert registry.get_sample_value("mcp_auth_failures_total", {"reason": "expired"}) == 0.0
