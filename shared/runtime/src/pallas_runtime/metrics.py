"""Metrics of more than one service, defined once so that they can be summed over all of them.

Series with the labels `team` and `agent` exist while the agent does. They begin at 0, so that a rate includes the first
increase. Nothing is counted for an agent that is gone, because that would make its series again. An agent has about 40
series, so only `MOST_AT_ZERO` agents have them from the start on. Those of a further agent begin with its first count.

Also whether the collector takes spans (`CollectorWatch`): each outage is logged once, with its reason.
"""

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, override

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pallas_contracts.turns import TurnOutcome

log = logging.getLogger(__name__)

AGENT = ("team", "agent")
"""The first labels of every metric by agent."""

TURN_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
"""Buckets for durations from milliseconds to the ten minutes of the longest turns."""

MOST_AT_ZERO = 250
"""Agents whose series begin as soon as the agent appears. A scrape of so many takes about 80 ms of CPU."""

OUTCOMES = ("completed", "failed", "cancelled", "input_required")

type Instrument = Counter | Gauge | Histogram


@dataclass(frozen=True)
class ByAgent[I: Instrument]:
    """A metric with the labels of `AGENT`, and optionally one more whose `values` begin at 0, or several.

    Without `begins`, a series is made when it is first used: its labels are not known before.
    """

    metric: I
    values: tuple[str, ...]
    agents: "AgentSeries"
    begins: bool = True
    _series: dict[tuple[str, ...], I] = field(default_factory=dict[tuple[str, ...], I])

    def of(self, team: str, agent: str, *value: str) -> I | None:
        """The series with these labels; None when there is no such agent."""
        labels = (team, agent, *value)
        series = self._series.get(labels)
        if series is None and self.agents.begin(team, agent):
            series = self._series[labels] = self.metric.labels(*labels)
        return series

    def count(self, team: str, agent: str, *value: str) -> None:
        """Add one to the series of a counter with these labels, if there is such an agent."""
        labels = (team, agent, *value)
        if (series := self._series.get(labels) or self.of(*labels)) is not None:
            assert isinstance(series, Counter)
            series.inc()

    def come(self, team: str, agent: str) -> None:
        """Make the series of a new agent."""
        for value in self.values:
            self.of(team, agent, value)
        if self.begins and not self.values:
            self.of(team, agent)

    def go(self, team: str, agent: str) -> None:
        """Remove the series of an agent that is gone."""
        for labels in [labels for labels in self._series if labels[:2] == (team, agent)]:
            del self._series[labels]
            self.metric.remove(*labels)


@dataclass
class AgentSeries:
    """The agents of the catalogue, and the metrics that have series for them."""

    _kept: list[ByAgent[Any]] = field(default_factory=list[ByAgent[Any]])
    _there: set[tuple[str, str]] = field(default_factory=set["tuple[str, str]"])
    _not_begun: set[tuple[str, str]] = field(default_factory=set["tuple[str, str]"])

    def keep[I: Instrument](self, metric: I, *values: str, begins: bool = True) -> ByAgent[I]:
        """Make and remove the series of a metric with the agents; `values` of its last label begin at 0."""
        kept = ByAgent(metric, values, self, begins)
        self._kept.append(kept)
        return kept

    def changed(self, key: str, definition: object | None) -> None:
        """Follow the catalogue: the agent `{team}.{agent}` has a definition, or None when it is gone."""
        team, _, agent = key.partition(".")
        if definition is None:
            self._there.discard((team, agent))
            self._not_begun.discard((team, agent))
            for kept in self._kept:
                kept.go(team, agent)
        elif (team, agent) not in self._there:
            self._there.add((team, agent))
            self._not_begun.add((team, agent))
            if len(self._there) <= MOST_AT_ZERO:
                self.begin(team, agent)

    def begin(self, team: str, agent: str) -> bool:
        """Make the agent's series at 0, if they have not begun. Returns whether there is such an agent."""
        if (team, agent) in self._not_begun:
            self._not_begun.discard((team, agent))
            for kept in self._kept:
                kept.come(team, agent)
        return (team, agent) in self._there


class EndedTurns:
    """Ended turns by outcome. The service that writes the outcome counts the turn, so each is counted once."""

    def __init__(self, registry: CollectorRegistry, agents: AgentSeries) -> None:
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
        self._turns.count(*agent, outcome.status)
        if outcome.code is not None and outcome.status == "failed":
            self._failures.count(*agent, outcome.code)
        if (seconds := self._seconds.of(*agent)) is not None:
            seconds.observe(seconds_between(outcome.requested_at, outcome.ended_at))


def seconds_between(began: datetime, ended: datetime) -> float:
    """The seconds between two moments; at least 0, because two clocks may differ."""
    return max(0.0, (ended - began).total_seconds())


def auth_failures(registry: CollectorRegistry, reasons: Iterable[str]) -> Counter:
    """The metric of refused bearers; the series of `reasons` begin at 0."""
    failures = Counter("mcp_auth_failures", "Bearers that were refused, by reason", ["reason"], registry=registry)
    for reason in reasons:
        failures.labels(reason)
    return failures


_BATCHES = "opentelemetry.sdk._shared_internal"
_NOISY = (
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    _BATCHES,
)


class ExporterWrapper(SpanExporter):
    """Wraps another exporter; subclasses define `export`."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner

    @override
    def shutdown(self) -> None:
        self._inner.shutdown()

    @override
    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


class CollectorWatch(ExporterWrapper):
    """Exports spans with another exporter; `accepted` tells whether the last export succeeded."""

    def __init__(self, inner: SpanExporter) -> None:
        super().__init__(inner)
        self._reason = _FirstMessage()
        self.accepted = True
        for name in _NOISY:
            logging.getLogger(name).addFilter(self._reason)

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._reason.begin()
        accepted = False
        try:
            result = self._inner.export(spans)
            accepted = result is SpanExportResult.SUCCESS
            return result
        finally:
            self._log_change(accepted)

    def _log_change(self, accepted: bool) -> None:
        if accepted and not self.accepted:
            log.info("the collector takes spans again")
        elif self.accepted and not accepted:
            log.warning("the collector takes no spans; they are dropped", extra={"reason": self._reason.message})
        self.accepted = accepted


class _FirstMessage(logging.Filter):
    """Keeps the first message that an export logs on its thread: the reason why it failed.

    Lines pass at level DEBUG only, crashes always.
    """

    def __init__(self) -> None:
        super().__init__()
        self._thread = 0
        self.message: str | None = None

    def begin(self) -> None:
        """An export begins on this thread."""
        self._thread, self.message = threading.get_ident(), None

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        if self.message is None and threading.get_ident() == self._thread:
            self.message = record.getMessage()
        crashed = record.name == _BATCHES and bool(record.exc_info)
        return crashed or log.isEnabledFor(logging.DEBUG)
