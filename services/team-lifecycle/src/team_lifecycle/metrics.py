"""What the service measures."""

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
        Counter("pallas_lifecycle_changes_total", "changes that were made", ["kind", "action"], registry=registry),
        Gauge("pallas_lifecycle_unsent_events", "events that the broker has not stored yet", registry=registry),
        Gauge("pallas_lifecycle_lag_seconds", "age of the oldest of them", registry=registry),
    )
