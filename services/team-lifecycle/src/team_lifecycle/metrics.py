"""The metrics of the service."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge


@dataclass(frozen=True)
class Metrics:
    """The instruments. Made by `make_metrics`."""

    changes: Counter
    unsent: Gauge
    lag: Gauge


def make_metrics(registry: CollectorRegistry) -> Metrics:
    """Register the instruments."""
    return Metrics(
        Counter("pallas_lifecycle_changes_total", "Changes that were committed", ["kind", "action"], registry=registry),
        Gauge("pallas_lifecycle_unsent_events", "Events that wait for the broker", registry=registry),
        Gauge(
            "pallas_lifecycle_lag_seconds",
            "Age of the oldest event that waits for the broker",
            registry=registry,
        ),
    )
