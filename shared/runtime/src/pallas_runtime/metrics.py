"""What more than one service measures, defined once so that it can be summed over all of them.

Series with the labels `team` and `agent` are there while the agent is: they begin at 0, so that a rate sees the first
increase, and end with it. Of an agent that is not there nothing is counted, or its series would come back for good.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pallas_contracts.turns import TurnOutcome

AGENT = ("team", "agent")
"""The first labels of whatever is measured by agent."""

TURN_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
"""Buckets for what may take from milliseconds to the ten minutes of the longest turns."""

OUTCOMES = ("completed", "failed", "cancelled", "input_required")

type Instrument = Counter | Gauge | Histogram


@dataclass
class AgentSeries:
    """The agents that are there, by whom the metrics that are `kept` here have their series."""

    _kept: list[tuple[Instrument, tuple[str, ...]]] = field(default_factory=list["tuple[Instrument, tuple[str, ...]]"])
    _there: set[tuple[str, str]] = field(default_factory=set["tuple[str, str]"])

    def keep[I: Instrument](self, metric: I, *values: str) -> I:
        """Keep the series of a metric with the labels of `AGENT`, and maybe one more, whose `values` begin at 0."""
        self._kept.append((metric, values))
        return metric

    def there(self, team: str, agent: str) -> bool:
        """Whether the agent is there, and something may be counted of it."""
        return (team, agent) in self._there

    def come(self, team: str, agent: str) -> None:
        """The agent is there, if it was not already."""
        self._there.add((team, agent))
        for metric, values in self._kept:
            for labels in [(team, agent, value) for value in values] or [(team, agent)]:
                metric.labels(*labels)

    def go(self, team: str, agent: str) -> None:
        """The agent is gone."""
        self._there.discard((team, agent))
        for metric, _ in self._kept:
            metric.remove_by_labels({"team": team, "agent": agent})

    def changed(self, key: str, definition: object | None) -> None:
        """Follow the catalogue: the agent `{team}.{agent}` has a definition, or None when it is gone."""
        team, _, agent = key.partition(".")
        if definition is None:
            self.go(team, agent)
        else:
            self.come(team, agent)


class EndedTurns:
    """Turns by how they ended, counted by whoever has written the outcome, so that each is counted once."""

    def __init__(self, registry: CollectorRegistry, agents: AgentSeries) -> None:
        self._agents = agents
        turns = Counter("pallas_turns", "Turns that ended, by outcome", [*AGENT, "outcome"], registry=registry)
        failures = Counter("pallas_turn_failures", "Turns that failed, by code", [*AGENT, "code"], registry=registry)
        seconds = Histogram(
            "pallas_turn_duration_seconds",
            "Time from the request of a turn to its outcome",
            AGENT,
            registry=registry,
            buckets=TURN_SECONDS,
        )
        self._turns = agents.keep(turns, *OUTCOMES)
        self._failures = agents.keep(failures, "internal", "worker_lost")
        self._seconds = agents.keep(seconds)

    def ended(self, outcome: TurnOutcome) -> None:
        """Count a turn whose outcome has just been stored."""
        agent = outcome.team, outcome.agent
        if not self._agents.there(*agent):
            return
        self._turns.labels(*agent, outcome.status).inc()
        if outcome.status == "failed":
            self._failures.labels(*agent, outcome.code).inc()
        self._seconds.labels(*agent).observe(seconds_between(outcome.requested_at, outcome.ended_at))


def seconds_between(began: datetime, ended: datetime) -> float:
    """The time between two moments, of which one may be of a clock that goes wrong: never less than nothing."""
    return max(0.0, (ended - began).total_seconds())


def auth_failures(registry: CollectorRegistry, reasons: Iterable[str]) -> Counter:
    """The metric of refused bearers, by the reasons for which they are refused here."""
    failures = Counter("mcp_auth_failures", "Bearers that were refused, by reason", ["reason"], registry=registry)
    for reason in reasons:
        failures.labels(reason)
    return failures
