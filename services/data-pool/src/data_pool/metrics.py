"""The metrics of the pool, besides those of its executor."""

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge

from pallas_runtime.metrics import auth_failures
from pallas_turns.metrics import Metrics as ExecutorMetrics
from pallas_turns.metrics import make_metrics as make_executor_metrics

STRAY = ("again", "late", "unknown", "unreadable")
"""Answers that belong to no call: the call was answered before, has ended otherwise, or was never made."""


@dataclass(frozen=True)
class Metrics:
    """The instruments, made by `make_metrics`."""

    executor: ExecutorMetrics
    stray_answers: Counter
    heartbeats: Counter
    auth_failures: Counter
    _connected: Gauge

    def watch(self, connected: Callable[[], int]) -> None:
        """Report at every scrape how many agents are connected here."""
        self._connected.set_function(connected)


def make_metrics(registry: CollectorRegistry) -> Metrics:
    """Register the instruments."""
    stray = Counter(
        "pallas_pool_stray_answers", "Answers of agents that belong to no call", ["kind"], registry=registry
    )
    for kind in STRAY:
        stray.labels(kind)
    return Metrics(
        make_executor_metrics(registry),
        stray,
        Counter("pallas_pool_heartbeats", "Heartbeats of agents", registry=registry),
        auth_failures(registry, ("missing", "malformed")),
        Gauge("pallas_pool_connected_agents", "Agents that are connected to this replica", registry=registry),
    )
