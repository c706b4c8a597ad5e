"""Metrics: the time of tool calls, and the bearers that this service refuses itself."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram

from pallas_postgres.figures import PostgresFigures, make_figures
from pallas_runtime.metrics import auth_failures

_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


@dataclass(frozen=True)
class Metrics:
    """The instruments. Made by `make_metrics`."""

    auth_failures: Counter
    tool_seconds: Histogram
    postgres: PostgresFigures


def make_metrics(registry: CollectorRegistry) -> Metrics:
    """Register the instruments."""
    tool_seconds = Histogram(
        "pallas_library_tool_seconds",
        "Time to answer a call of a tool",
        ["tool", "outcome"],
        registry=registry,
        buckets=_BUCKETS,
    )
    return Metrics(auth_failures(registry, ("missing", "malformed")), tool_seconds, make_figures(registry))
