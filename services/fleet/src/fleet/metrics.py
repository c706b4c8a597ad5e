"""The metrics of the fleet, besides those of its executor."""

from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge

from pallas_turns.metrics import Metrics as ExecutorMetrics
from pallas_turns.metrics import make_metrics as make_executor_metrics

STATUSES = ("busy", "idle", "offline")


@dataclass(frozen=True)
class Metrics:
    """The instruments, made by `make_metrics`."""

    executor: ExecutorMetrics
    _requests: Counter
    _agents: Gauge

    def requested(self, peer: str, result: str) -> None:
        """Count a request to Coder or to a terminal: the class of its status, or why it has none."""
        self._requests.labels(peer, result).inc()

    def watch(self, agents: Callable[[str], int]) -> None:
        """Report at every scrape how many agents of each status there were when they were last seen."""
        for status in STATUSES:
            self._agents.labels(status).set_function(lambda status=status: agents(status))


def make_metrics(registry: CollectorRegistry) -> Metrics:
    """Register the instruments."""
    return Metrics(
        make_executor_metrics(registry),
        Counter(
            "pallas_fleet_requests",
            "Requests to Coder and to terminals of agents, by class of status or why there was no answer",
            ["kind", "code"],
            registry=registry,
        ),
        Gauge("pallas_fleet_agents", "Coding agents, by status", ["status"], registry=registry),
    )
